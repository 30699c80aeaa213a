#include "kube/leader.h"

#include <string.h>

#include "base/log.h"

#define LEASE_MS (15 * 1000)
#define RENEW_DEADLINE_MS (10 * 1000)
#define RETRY_MS (2 * 1000)
#define RELEASE_TIMEOUT_MS (3 * 1000)

static const KubeKind lease_kind = { "coordination.k8s.io", "v1", "leases", "Lease", TRUE };

typedef struct {
  Ctx *ctx, *term;
  KubeClient *client;
  LeaderConfig config;
  LeaderFunc func;
  gpointer data;
  KubeTarget target;
  char *seen_version; /* of the Lease as another held it, */
  gint64 seen_us;     /* and since when it has not changed */
  gint64 renewed_us;  /* when the last good renewal began */
  gint is_done;       /* the work has ended */
  GError *failure;    /* of the work */
} Leader;

static char *
micro_time (void)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *seconds = g_date_time_format (now, "%Y-%m-%dT%H:%M:%S");
  return g_strdup_printf ("%s.%06dZ", seconds, g_date_time_get_microsecond (now));
}

static void
put_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *value)
{
  yyjson_mut_obj_remove_key (object, name);
  yyjson_mut_obj_add_strcpy (doc, object, name, value);
}

static void
put_number (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, gint64 value)
{
  yyjson_mut_obj_remove_key (object, name);
  yyjson_mut_obj_add_int (doc, object, name, value);
}

/* The Lease as it is to become; `lease` NULL: a new one. */
static yyjson_mut_doc *
edit_lease (Leader *self, KubeObject *lease, const char *holder)
{
  yyjson_mut_doc *doc = lease != NULL ? kube_object_edit (lease) : yyjson_mut_doc_new (NULL);
  if (lease == NULL)
    {
      yyjson_mut_doc_set_root (doc, yyjson_mut_obj (doc));
      yyjson_mut_val *metadata = yyjson_mut_obj_add_obj (doc, yyjson_mut_doc_get_root (doc), "metadata");
      yyjson_mut_obj_add_strcpy (doc, metadata, "name", self->config.name);
    }
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  yyjson_mut_val *spec = yyjson_mut_obj_get (root, "spec");
  if (spec == NULL)
    spec = yyjson_mut_obj_add_obj (doc, root, "spec");
  yyjson_val *old_spec = lease != NULL ? kube_object_spec (lease) : NULL;
  const char *old_holder = json_get_string (old_spec, "holderIdentity");
  gint64 n_changes = yyjson_get_sint (yyjson_obj_get (old_spec, "leaseTransitions"));
  g_autofree char *now = micro_time ();
  gboolean is_new = old_holder == NULL || strcmp (old_holder, holder) != 0;
  put_text (doc, spec, "holderIdentity", holder);
  put_text (doc, spec, "renewTime", now);
  put_number (doc, spec, "leaseDurationSeconds", holder[0] != '\0' ? MAX (self->config.lease_ms / 1000, 1) : 1);
  if (is_new && holder[0] != '\0')
    {
      put_text (doc, spec, "acquireTime", now);
      put_number (doc, spec, "leaseTransitions", old_spec != NULL ? n_changes + 1 : 0);
    }
  return doc;
}

/* Whether the Lease may be taken: nobody's, ours, or not renewed for as long as its holder promised. Clocks of others are
 * not asked: only how long we have seen it unchanged. */
static gboolean
is_free (Leader *self, const KubeObject *lease)
{
  yyjson_val *spec = kube_object_spec (lease);
  const char *holder = json_get_string (spec, "holderIdentity");
  const char *version = kube_object_resource_version (lease);
  if (holder == NULL || holder[0] == '\0' || strcmp (holder, self->config.identity) == 0)
    return TRUE;
  if (g_strcmp0 (self->seen_version, version) != 0)
    {
      g_free (self->seen_version);
      self->seen_version = g_strdup (version);
      self->seen_us = g_get_monotonic_time ();
    }
  gint64 promised_s = yyjson_get_sint (yyjson_obj_get (spec, "leaseDurationSeconds"));
  gint64 wait_ms = MAX (promised_s * 1000, self->config.lease_ms);
  return g_get_monotonic_time () - self->seen_us >= wait_ms * 1000;
}

/* One try to take or renew the Lease; FALSE without it. */
static gboolean
try_hold (Leader *self, Ctx *ctx, GError **error)
{
  gint64 begin_us = g_get_monotonic_time ();
  g_autoptr (KubeObject) lease = NULL;
  if (!kube_client_find (ctx, self->client, &self->target, &lease, error))
    return FALSE;
  if (lease != NULL && !is_free (self, lease))
    return am_fail (error, AM_ERROR_FAILED_PRECONDITION, NULL, "the lease is held by %s",
                    json_get_string (kube_object_spec (lease), "holderIdentity"));
  g_autoptr (yyjson_mut_doc) wanted = edit_lease (self, lease, self->config.identity);
  g_autoptr (KubeObject) held = lease == NULL ? kube_client_create (ctx, self->client, &self->target, wanted, error)
                                              : kube_client_update (ctx, self->client, &self->target, wanted, error);
  if (held == NULL)
    return FALSE;
  self->renewed_us = begin_us;
  return TRUE;
}

static gboolean
acquire (Leader *self)
{
  for (;;)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Ctx) limited = ctx_new_child (self->ctx, self->config.renew_deadline_ms);
      if (try_hold (self, limited, &error))
        return TRUE;
      am_log_debug (self->ctx, "waiting for leadership", "err", error->message, NULL);
      gint64 pause_ms = g_random_int_range ((gint) self->config.retry_ms, (gint) self->config.retry_ms * 3 / 2 + 1);
      if (!ctx_sleep_ms (self->ctx, pause_ms, NULL))
        return FALSE;
    }
}

static gpointer
work (gpointer data)
{
  Leader *self = data;
  self->func (self->term, self->data, &self->failure);
  g_atomic_int_set (&self->is_done, TRUE);
  ctx_cancel (self->term);
  return NULL;
}

/* Renews until the work has ended, the context does, or the Lease cannot be kept; only then FALSE. */
static gboolean
keep (Leader *self)
{
  for (;;)
    {
      g_autoptr (GError) error = NULL;
      /* Ends at once when the work does. */
      ctx_sleep_ms (self->term, self->config.retry_ms, NULL);
      if (g_atomic_int_get (&self->is_done) || !ctx_check (self->ctx, NULL))
        return TRUE;
      gint64 left_ms = self->config.renew_deadline_ms - (g_get_monotonic_time () - self->renewed_us) / 1000;
      g_autoptr (Ctx) limited = ctx_new_child (self->term, MAX (left_ms, 0));
      if (left_ms > 0 && try_hold (self, limited, &error))
        continue;
      gboolean is_held_by_other = error != NULL && am_error_is (error, AM_ERROR_FAILED_PRECONDITION);
      am_log_warning (self->ctx, "the leader's lease was not renewed", "err", error != NULL ? error->message : "late",
                      NULL);
      if (is_held_by_other || g_get_monotonic_time () - self->renewed_us >= self->config.renew_deadline_ms * 1000)
        return g_atomic_int_get (&self->is_done) || !ctx_check (self->ctx, NULL);
    }
}

/* So that the next leader need not wait. */
static void
release (Leader *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (Ctx) ctx = ctx_new_child (NULL, RELEASE_TIMEOUT_MS);
  g_autoptr (KubeObject) lease = kube_client_get (ctx, self->client, &self->target, &error);
  const char *holder = lease != NULL ? json_get_string (kube_object_spec (lease), "holderIdentity") : NULL;
  if (holder != NULL && strcmp (holder, self->config.identity) == 0)
    {
      g_autoptr (yyjson_mut_doc) wanted = edit_lease (self, lease, "");
      kube_object_unref (kube_client_update (ctx, self->client, &self->target, wanted, &error));
    }
  if (error != NULL)
    am_ignore (&error, "the lease runs out by itself");
}

typedef struct {
  Ctx *term;
  const LeaderWork *work;
  GError *error;
} Share;

static gpointer
do_share (gpointer data)
{
  Share *share = data;
  if (!share->work->func (share->term, share->work->data, &share->error))
    ctx_cancel (share->term);
  return NULL;
}

gboolean
leader_work_together (Ctx *term, gpointer data, GError **error)
{
  const LeaderWorks *works = data;
  g_autoptr (Ctx) together = ctx_new_child (term, -1);
  g_autofree Share *shares = g_new0 (Share, works->n);
  g_autofree GThread **threads = g_new0 (GThread *, works->n);
  GError *first = NULL;
  for (gsize i = 0; i < works->n; i++)
    {
      shares[i] = (Share){ together, &works->works[i], NULL };
      threads[i] = g_thread_new ("leader-work", do_share, &shares[i]);
    }
  for (gsize i = 0; i < works->n; i++)
    {
      g_thread_join (threads[i]);
      gboolean is_cause = shares[i].error != NULL && (first == NULL || am_error_is (first, AM_ERROR_CANCELLED));
      if (is_cause)
        g_clear_error (&first);
      if (is_cause)
        first = g_steal_pointer (&shares[i].error);
      g_clear_error (&shares[i].error);
    }
  if (first == NULL)
    return TRUE;
  g_propagate_error (error, first);
  return FALSE;
}

gboolean
leader_run (Ctx *ctx, KubeClient *client, const LeaderConfig *config, LeaderFunc func, gpointer data, GError **error)
{
  Leader self = { .ctx = ctx, .client = client, .config = *config, .func = func, .data = data };
  self.config.lease_ms = config->lease_ms > 0 ? config->lease_ms : LEASE_MS;
  self.config.renew_deadline_ms = config->renew_deadline_ms > 0 ? config->renew_deadline_ms : RENEW_DEADLINE_MS;
  self.config.retry_ms = config->retry_ms > 0 ? config->retry_ms : RETRY_MS;
  self.target = (KubeTarget){ .kind = &lease_kind, .namespace = config->namespace, .name = config->name };
  if (!acquire (&self))
    {
      g_free (self.seen_version);
      return TRUE;
    }
  am_log_info (ctx, "leading", "identity", config->identity, NULL);
  g_autoptr (Ctx) term = self.term = ctx_new_child (ctx, -1);
  GThread *worker = g_thread_new ("leader", work, &self);
  gboolean kept = keep (&self);
  ctx_cancel (term);
  g_thread_join (worker);
  g_free (self.seen_version);
  if (kept)
    release (&self);
  else
    {
      g_clear_error (&self.failure);
      return am_fail (error, AM_ERROR_ABORTED, "LeadershipLost", "the lease %s/%s was lost", config->namespace,
                      config->name);
    }
  if (self.failure == NULL || !ctx_check (ctx, NULL))
    {
      g_clear_error (&self.failure);
      return TRUE;
    }
  g_propagate_error (error, self.failure);
  return FALSE;
}
