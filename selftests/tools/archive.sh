# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # cache, work and fail() are the caller's
# Debian's archive, by the mirrors of this machine's apt and a configuration of its own: for
# selftests/tools/kernels and fio-source. The caller sets cache and work, and has fail().

# One at a time uses the lists.
lock_archive() {
	exec 9>"$cache/kernels.lock"
	flock 9
}

# own_sources: what this machine's apt knows of Debian's archive, in both
# of its notations, as lines of: suite, URIs, key, whether Valid-Until is checked.
# Fields are separated by tabs; a key that is given in full keeps its lines, as \001.
own_sources() {
	local list parts f
	eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
	for f in "$list" "${parts%/}"/*.list; do
		[ -f "$f" ] && sed 's/#.*//' "$f" | awk '
			$1 == "deb" {
				key = valid = ""
				if (match($0, /\[[^]]*\]/)) {
					n = split(substr($0, RSTART + 1, RLENGTH - 2), option, " ")
					for (i = 1; i <= n; i++) {
						if (sub(/^signed-by=/, "", option[i]))
							key = option[i]
						else if (sub(/^check-valid-until=/, "", option[i]))
							valid = option[i]
					}
					$0 = "deb " substr($0, RSTART + RLENGTH)
				}
				print $3 "\t" $2 "\t" key "\t" valid
			}'
	done
	for f in "${parts%/}"/*.sources; do
		[ -f "$f" ] && { grep -v '^#' "$f" && echo; } | awk '
			function stanza(	n, i, suite) {
				n = split(value["suites"], suite, /[ \t\001]+/)
				if (value["enabled"] !~ /^ *(no|false|off|0)/ &&
				    value["types"] ~ /(^|[ \t\001])deb([ \t\001]|$)/)
					for (i = 1; i <= n; i++) {
						if (suite[i] == "")
							continue
						gsub(/[\t\001]+/, " ", value["uris"])
						gsub(/\t/, " ", value["signed-by"])
						print suite[i] "\t" value["uris"] "\t" \
							value["signed-by"] "\t" value["check-valid-until"]
					}
				split("", value)
			}
			/^[ \t]*$/ { stanza(); next }
			/^[ \t]/ { value[field] = value[field] "\001" $0; next }
			{
				field = tolower(substr($0, 1, index($0, ":") - 1))
				value[field] = substr($0, index($0, ":") + 1)
				sub(/^[ \t]+/, "", value[field])
			}'
	done
}

# private_apt [SUITES]: a configuration of apt that leaves the machine's alone, with
# its suites of its release of Debian, and those given, of the same mirrors. With
# ARCHIVE_OF=sources it has source packages, else binary ones.
private_apt() {
	local release line suite uris key valid n=0 suites types=deb targets=Packages
	[ "${ARCHIVE_OF-}" != sources ] || types=deb-src targets=Sources
	release=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
	mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
	rm -rf "$work/sources"
	mkdir "$work/sources"
	while IFS= read -r line; do
		# Not by read: tabs that follow each other would count as one.
		suite=${line%%$'\t'*} line=${line#*$'\t'}
		uris=${line%%$'\t'*} line=${line#*$'\t'}
		key=${line%%$'\t'*} valid=${line#*$'\t'}
		[[ $suite = "$release" || $suite = "$release"[-/]* ]] || continue
		suites=$suite
		[ "$suite" != "$release" ] || suites+=" ${1-}"
		n=$((n + 1))
		{
			printf '%s\n' "Types: $types" "URIs: $uris" "Suites: $suites" "Components: main" \
				"Architectures: amd64" "Targets: $targets"
			[ -z "$valid" ] || echo "Check-Valid-Until: $valid"
			[ -z "$key" ] || echo "Signed-By: $key" | tr '\001' '\n'
		} >"$work/sources/$n.sources"
	done < <(own_sources)
	[ "$n" -gt 0 ] || fail "apt's configuration has no source of Debian ${release:-at all}"
	# The sandbox user can't enter a home; signatures and hashes are checked as ever.
	cat >"$work/apt.conf" <<-END
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$work/sources";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Dir::State::lists "$cache/apt/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$cache/apt";
		APT::Sandbox::User "root";
		APT::Default-Release "";
		APT::Get::AllowUnauthenticated "false";
		APT::Get::List-Cleanup "false";
	END
	LC_ALL=C apt-get -c "$work/apt.conf" -q update --error-on=any >"$work/log" 2>&1
}
