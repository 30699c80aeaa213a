#include "cluster/termination_message.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"

gboolean
termination_message_write (const char *path, const char *text, GError **error)
{
  am_autofd int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd >= 0 ? file_write_all (fd, text, strlen (text), error)
                 : am_fail_errno (error, errno, "the termination message cannot be written to %s", path);
}
