#include "base/ctx.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/ctx_wake.h"
#include "base/error.h"

typedef struct {
  char *key;
  char *value;
} Field;

struct Ctx {
  gatomicrefcount references;
  Ctx *parent;
  gint64 deadline_us; /* monotonic; G_MAXINT64 for none; never later than the parent's */
  atomic_int cancelled;
  atomic_int event_fd; /* made when somebody first sleeps; -1 until then */
  GArray *fields;
};

static Ctx *
ctx_alloc (void)
{
  Ctx *self = g_new0 (Ctx, 1);
  g_atomic_ref_count_init (&self->references);
  self->deadline_us = G_MAXINT64;
  atomic_init (&self->event_fd, -1);
  return self;
}

Ctx *
ctx_new (void)
{
  Ctx *self = ctx_alloc ();
  atomic_store (&self->event_fd, eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK));
  return self;
}

Ctx *
ctx_new_child (Ctx *parent, gint64 timeout_ms)
{
  Ctx *self = ctx_alloc ();
  if (parent != NULL)
    {
      self->parent = ctx_ref (parent);
      self->deadline_us = parent->deadline_us;
    }
  if (timeout_ms >= 0 && timeout_ms < G_MAXINT64 / 2000)
    self->deadline_us = MIN (self->deadline_us, g_get_monotonic_time () + timeout_ms * 1000);
  return self;
}

Ctx *
ctx_ref (Ctx *self)
{
  g_atomic_ref_count_inc (&self->references);
  return self;
}

static void
field_clear (gpointer data)
{
  Field *field = data;
  g_free (field->key);
  g_free (field->value);
}

void
ctx_unref (Ctx *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->references))
    return;
  ctx_unref (self->parent);
  int fd = atomic_load (&self->event_fd);
  if (fd >= 0)
    close (fd);
  if (self->fields != NULL)
    g_array_unref (self->fields);
  g_free (self);
}

void
ctx_set_field (Ctx *self, const char *key, const char *value)
{
  if (self->fields == NULL)
    {
      self->fields = g_array_new (FALSE, FALSE, sizeof (Field));
      g_array_set_clear_func (self->fields, field_clear);
    }
  Field field = { g_strdup (key), g_strdup (value) };
  g_array_append_val (self->fields, field);
}

void
ctx_foreach_field (Ctx *self, void (*func) (const char *key, const char *value, gpointer data), gpointer data)
{
  if (self == NULL)
    return;
  ctx_foreach_field (self->parent, func, data);
  for (guint i = 0; self->fields != NULL && i < self->fields->len; i++)
    {
      const Field *field = &g_array_index (self->fields, Field, i);
      func (field->key, field->value, data);
    }
}

void
ctx_cancel (Ctx *self)
{
  int saved_errno = errno;
  atomic_store (&self->cancelled, 1);
  int fd = atomic_load (&self->event_fd);
  uint64_t one = 1;
  if (fd >= 0 && write (fd, &one, sizeof one) < 0)
    {
      /* The counter can only be full already: the sleeper wakes up either way. */
    }
  errno = saved_errno;
}

gboolean
ctx_is_cancelled (Ctx *self)
{
  for (Ctx *each = self; each != NULL; each = each->parent)
    if (atomic_load (&each->cancelled))
      return TRUE;
  return FALSE;
}

gboolean
ctx_check (Ctx *self, GError **error)
{
  if (self == NULL)
    return TRUE;
  if (ctx_is_cancelled (self))
    return am_fail (error, AM_ERROR_CANCELLED, NULL, "cancelled");
  if (self->deadline_us != G_MAXINT64 && g_get_monotonic_time () >= self->deadline_us)
    return am_fail (error, AM_ERROR_DEADLINE_EXCEEDED, NULL, "the time allowed for this is over");
  return TRUE;
}

gint64
ctx_remaining_ms (Ctx *self)
{
  if (self == NULL || self->deadline_us == G_MAXINT64)
    return G_MAXINT64;
  gint64 left_us = self->deadline_us - g_get_monotonic_time ();
  return left_us <= 0 ? 0 : (left_us + 999) / 1000;
}

/* The wake-up descriptor, made on demand; a lost race closes the spare one. */
static int
ctx_event_fd (Ctx *self)
{
  int fd = atomic_load (&self->event_fd);
  if (fd >= 0)
    return fd;
  int fresh = eventfd (atomic_load (&self->cancelled) ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
  int expected = -1;
  if (fresh >= 0 && !atomic_compare_exchange_strong (&self->event_fd, &expected, fresh))
    {
      close (fresh);
      return expected;
    }
  return fresh;
}

guint
ctx_wake_fds (Ctx *self, struct pollfd fds[CTX_MAX_WAKE_FDS], gboolean *out_is_whole)
{
  guint n_fds = 0;
  *out_is_whole = TRUE;
  for (Ctx *each = self; each != NULL; each = each->parent)
    {
      int fd = n_fds < CTX_MAX_WAKE_FDS ? ctx_event_fd (each) : -1;
      if (fd >= 0)
        fds[n_fds++] = (struct pollfd){ .fd = fd, .events = POLLIN };
      else
        *out_is_whole = FALSE;
    }
  return n_fds;
}

gboolean
ctx_sleep_ms (Ctx *self, gint64 duration_ms, GError **error)
{
  gint64 end_us = g_get_monotonic_time () + MIN (MAX (duration_ms, 0), G_MAXINT / 2) * 1000;
  struct pollfd fds[CTX_MAX_WAKE_FDS];
  gboolean is_whole = FALSE;
  guint n_fds = ctx_wake_fds (self, fds, &is_whole);
  for (;;)
    {
      if (!ctx_check (self, error))
        return FALSE;
      gint64 left_ms = (end_us - g_get_monotonic_time () + 999) / 1000;
      if (left_ms <= 0)
        return TRUE;
      left_ms = MIN (left_ms, ctx_remaining_ms (self));
      poll (fds, n_fds, (int) MIN (left_ms, 60000));
    }
}
