/* Every address behind a host's name, for who must speak with each machine and not with any. Thread-safe. */
#pragma once

#include "base/ctx.h"
#include "base/error.h"

/* Texts of addresses ("10.0.0.1", "fd00::1"), each once, in no order; a literal address is its own. Blocks up to the context's
 * deadline (the resolver itself may go on for some seconds on a thread of its own). Never empty: UNAVAILABLE (reason HostUnreachable)
 * when the name has none or nobody could be asked, RESOURCE_EXHAUSTED when it has more than `max`; CANCELLED and DEADLINE_EXCEEDED
 * within 0.1 s. Caller frees. */
GPtrArray *host_addresses (Ctx *ctx, const char *host, guint max, GError **error);
