#include "net/host_addresses.h"

#include <netdb.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define LOOK_EVERY_US (50 * 1000)

/* One question to the resolver, which knows no deadline: whoever is last, asker or thread, frees it. */
typedef struct {
  gatomicrefcount n_refs;
  char *host;
  GMutex lock;
  GCond answered;
  gboolean is_answered;
  int code; /* of getaddrinfo */
  struct addrinfo *found;
} Lookup;

static void
lookup_unref (Lookup *self)
{
  if (!g_atomic_ref_count_dec (&self->n_refs))
    return;
  if (self->found != NULL)
    freeaddrinfo (self->found);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->answered);
  g_free (self->host);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Lookup, lookup_unref)

static gpointer
ask_resolver (gpointer data)
{
  g_autoptr (Lookup) self = data;
  struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
  struct addrinfo *found = NULL;
  int code = getaddrinfo (self->host, NULL, &hints, &found);
  g_mutex_lock (&self->lock);
  self->code = code;
  self->found = code == 0 ? found : NULL;
  self->is_answered = TRUE;
  g_cond_signal (&self->answered);
  g_mutex_unlock (&self->lock);
  return NULL;
}

static Lookup *
lookup_start (const char *host, GError **error)
{
  g_autoptr (Lookup) self = g_new0 (Lookup, 1);
  g_atomic_ref_count_init (&self->n_refs);
  g_mutex_init (&self->lock);
  g_cond_init (&self->answered);
  self->host = g_strdup (host);
  g_atomic_ref_count_inc (&self->n_refs);
  g_autoptr (GError) problem = NULL;
  GThread *thread = g_thread_try_new ("resolver", ask_resolver, self, &problem);
  if (thread == NULL)
    {
      lookup_unref (self); /* the thread's */
      return am_fail_null (error, AM_ERROR_UNAVAILABLE, NULL, "no thread for the resolver: %s", problem->message);
    }
  g_thread_unref (thread);
  return g_steal_pointer (&self);
}

static gboolean
lookup_wait (Ctx *ctx, Lookup *self, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  while (!self->is_answered)
    if (!ctx_check (ctx, error))
      return FALSE;
    else
      g_cond_wait_until (&self->answered, &self->lock, g_get_monotonic_time () + LOOK_EVERY_US);
  return TRUE;
}

static gboolean
take_addresses (const Lookup *self, GPtrArray *texts, guint max, GError **error)
{
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE];
  for (const struct addrinfo *each = self->found; each != NULL; each = each->ai_next)
    {
      if (getnameinfo (each->ai_addr, each->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0
          || g_ptr_array_find_with_equal_func (texts, text, g_str_equal, NULL))
        continue;
      if (texts->len == max)
        return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s has more than %u addresses", self->host, max);
      g_ptr_array_add (texts, g_strdup (text));
    }
  return TRUE;
}

GPtrArray *
host_addresses (Ctx *ctx, const char *host, guint max, GError **error)
{
  g_autoptr (Lookup) lookup = ctx_check (ctx, error) ? lookup_start (host, error) : NULL;
  if (lookup == NULL || !lookup_wait (ctx, lookup, error))
    return NULL;
  g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  if (!take_addresses (lookup, texts, max, error))
    return NULL;
  if (texts->len == 0)
    return am_fail_null (error, AM_ERROR_UNAVAILABLE, "HostUnreachable", "%s has no address (%s)", host,
                         lookup->code != 0 ? gai_strerror (lookup->code) : "none was given");
  return g_steal_pointer (&texts);
}
