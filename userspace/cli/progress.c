// SPDX-License-Identifier: GPL-2.0
/* The progress bar on stderr. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

#define WIDTH_DEFAULT 80
#define BAR_MAX       40

static int terminal_width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20)
		return WIDTH_DEFAULT;
	return size.ws_col;
}

#define CLOCK_TEXT 32

static void format_clock(double seconds, char text[CLOCK_TEXT])
{
	const unsigned long s = seconds < 359999 ? (unsigned long)seconds : 359999;

	if (s >= 3600)
		snprintf(text, CLOCK_TEXT, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(text, CLOCK_TEXT, "%lu:%02lu", s / 60, s % 60);
}

void progress_update(struct progress *progress, uint64_t done)
{
	const double seconds = (double)(now_ns() - progress->start_ns) / 1e9;
	const double rate = seconds > 0 ? (double)done / seconds : 0;
	char tail[96], clock[CLOCK_TEXT], size[SIZE_TEXT], speed[SIZE_TEXT], bar[BAR_MAX + 1];
	const int columns = terminal_width() - 1;
	int room, filled;

	size_text(done, size);
	size_text((uint64_t)rate, speed);
	progress->shown = true;
	if (!progress->total) {
		format_clock(seconds, clock);
		snprintf(tail, sizeof(tail), "%s  %s/s  %s", size, speed, clock);
		fprintf(stderr, "\r%.*s\033[K", columns, tail);
		return;
	}
	if (rate > 0)
		format_clock((double)(progress->total - done) / rate, clock);
	else
		strcpy(clock, "--:--");
	snprintf(tail, sizeof(tail), "%3u%%  %s  %s/s  ETA %s",
		 (unsigned int)((double)done * 100 / (double)progress->total), size, speed, clock);

	/* What is left of the line after the name, the brackets and the numbers. */
	room = columns - (int)strlen(progress->name) - (int)strlen(tail) - 5;
	if (room > BAR_MAX)
		room = BAR_MAX;
	if (room < 5) {
		fprintf(stderr, "\r%.*s\033[K", columns, tail);
		return;
	}
	filled = (int)((double)done * room / (double)progress->total);
	memset(bar, '#', (size_t)filled);
	memset(bar + filled, '.', (size_t)(room - filled));
	bar[room] = '\0';
	fprintf(stderr, "\r%s [%s] %s\033[K", progress->name, bar, tail);
}

void progress_clear(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
