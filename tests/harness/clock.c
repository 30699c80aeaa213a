/* Preloaded: the wall clock of a program stands apart from the real one by the seconds in the file $CLOCK_OFFSET_FILE, which may
 * change at any time. The monotonic clock is left alone, as it is when somebody sets a machine's clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long
offset_s (void)
{
  const char *path = getenv ("CLOCK_OFFSET_FILE");
  char text[32] = "";
  int file = path != NULL ? open (path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0)
    return 0;
  ssize_t size = read (file, text, sizeof text - 1);
  close (file);
  return size > 0 ? atol (text) : 0;
}

int
clock_gettime (clockid_t clock, struct timespec *out)
{
  static int (*real) (clockid_t, struct timespec *);
  if (real == NULL)
    real = (int (*) (clockid_t, struct timespec *)) dlsym (RTLD_NEXT, "clock_gettime");
  int result = real (clock, out);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    out->tv_sec += offset_s ();
  return result;
}

int
gettimeofday (struct timeval *restrict out, void *restrict zone)
{
  struct timespec now;
  (void) zone;
  clock_gettime (CLOCK_REALTIME, &now);
  *out = (struct timeval){ now.tv_sec, now.tv_nsec / 1000 };
  return 0;
}

time_t
time (time_t *out)
{
  struct timespec now;
  clock_gettime (CLOCK_REALTIME, &now);
  if (out != NULL)
    *out = now.tv_sec;
  return now.tv_sec;
}
