/* Where the kubelet reads how a container ended. Used by the programs that run in Pods of ours. */
#pragma once

#include "base/error.h"

/* Writes the message in place, because the kubelet has mounted a file there. Blocks; errors of am_fail_errno. */
gboolean termination_message_write (const char *path, const char *text, GError **error);
