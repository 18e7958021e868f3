# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# NVMe over RDMA to compare with, by the kernel's own modules. To be sourced in a machine,
# by bash or by the shell of busybox.

# nvmet_target NAME DEVICE PORT ADDRESS: give the block device to everybody, as the subsystem NAME.
nvmet_target() {
	local config=/sys/kernel/config/nvmet name=$1 device=$2 port=$3 address=$4
	modprobe nvmet-rdma || return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	mkdir -p "$config/subsystems/$name/namespaces/1" "$config/ports/$port" || return
	echo 1 >"$config/subsystems/$name/attr_allow_any_host"
	echo "$device" >"$config/subsystems/$name/namespaces/1/device_path"
	echo 1 >"$config/subsystems/$name/namespaces/1/enable"
	echo rdma >"$config/ports/$port/addr_trtype"
	echo ipv4 >"$config/ports/$port/addr_adrfam"
	echo "$address" >"$config/ports/$port/addr_traddr"
	echo "$port" >"$config/ports/$port/addr_trsvcid"
	ln -s "$config/subsystems/$name" "$config/ports/$port/subsystems/$name"
}

# nvme_connect NAME PORT [OPTIONS]: prints the block device.
nvme_connect() {
	local controller device instance
	modprobe nvme-rdma || return
	# The answer is read where the wish was written.
	exec 9<>/dev/nvme-fabrics || return
	echo "transport=rdma,traddr=10.77.0.2,trsvcid=$2,nqn=$1${3-}" >&9 || return
	read -r instance <&9
	exec 9>&-
	controller=nvme$(echo "$instance" | sed -n 's/.*instance=\([0-9]*\).*/\1/p')
	until device=$(ls "/dev/$controller"n1 2>/dev/null); do
		: # udev is not here: devtmpfs
	done
	echo "$device"
}

nvme_disconnect() {
	echo 1 | tee /sys/class/nvme/nvme*/delete_controller >/dev/null
}
