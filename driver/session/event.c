// SPDX-License-Identifier: GPL-2.0
/* What happens to sessions, their paths, and listeners, for those who watch. */
#include "event.h"
#include "session/session.h"

/**
 * krdma_session_event - tell of a session
 * @sess: session
 * @type: enum krdma_event_type
 * @path: a path of the session; NULL: the path of the first channel
 * @err: negative errno, or 0
 * @cause: a phrase, or NULL
 *
 * Context: session->lock held.
 */
void krdma_session_event(struct krdma_session *sess, u32 type, const struct krdma_path *path,
			 int err, const char *cause)
{
	const struct krdma_event_scope scope = { .net = sess->net, .uid = sess->uid };
	struct krdma_monitor_event event = {
		.type = type,
		.session = sess->serial,
		.uid = __kuid_val(sess->uid),
		.status = err,
		.flags = (sess->inbound ? KRDMA_SESSION_INBOUND : 0) |
			 (sess->private ? KRDMA_SESSION_PRIVATE : 0),
	};

	lockdep_assert_held(&sess->lock);
	if (!krdma_events_watched())
		return;
	event.path = path ? path->index : 0;
	if (!path)
		path = sess->ch->path;
	krdma_addr_to_user(&path->local, &event.local);
	krdma_addr_to_user(path->dst.ss_family ? &path->dst : &sess->dst, &event.peer);
	strscpy(event.name, path->device, sizeof(event.name));
	strscpy(event.cause, cause ?: "", sizeof(event.cause));
	krdma_event_post(&event, &scope);
}

/**
 * krdma_paths_event - tell of the paths that have become up, or are lost
 * @sess: session, of which a channel has come up or was lost
 * @cause: why, if it was lost
 *
 * All of them: a channel may be up again on another path when its loss is handled.
 *
 * Context: session->lock held.
 */
void krdma_paths_event(struct krdma_session *sess, const char *cause)
{
	u32 i;

	lockdep_assert_held(&sess->lock);
	for (i = 0; i < sess->npaths; i++) {
		struct krdma_path *path = &sess->paths[i];
		bool up = krdma_path_up(sess, path);

		if (up == path->told_up)
			continue;
		path->told_up = up;
		krdma_session_event(sess, up ? KRDMA_EVENT_PATH_UP : KRDMA_EVENT_PATH_LOST, path, 0,
				    up ? NULL : cause);
	}
}

/**
 * krdma_listener_event - tell of a listener
 * @l: listener
 * @type: enum krdma_event_type
 *
 * Context: process.
 */
void krdma_listener_event(const struct krdma_listener *l, u32 type)
{
	const struct krdma_event_scope scope = { .net = l->net, .all = true };
	struct krdma_monitor_event event = { .type = type };

	krdma_addr_to_user(&l->addr, &event.local);
	krdma_event_post(&event, &scope);
}
