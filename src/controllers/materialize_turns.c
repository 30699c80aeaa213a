#include "controllers/materialize_turns.h"

#include "base/log.h"
#include "cluster/module_objects.h"
#include "controllers/materialize_sight.h"
#include "domain/copy_pace.h"
#include "domain/materialize_queue.h"
#include "registry/grant_progress.h"

#define WAIT_US (60 * G_USEC_PER_SEC)   /* who does not ask again for so long is forgotten */
#define CALLED_US (20 * G_USEC_PER_SEC) /* the same of one whose turn it is */
#define UNSEEN_US (60 * G_USEC_PER_SEC) /* before a Job that was started is asked for */
#define PACE_US (3600 * (gint64) G_USEC_PER_SEC) /* how long a copy of which nobody asks is remembered */

typedef struct {
  char *namespace, *claim, *key;
  gint64 claim_created_s;
  gint64 until_us; /* monotonic */
  gboolean is_called;
} Waiting;

typedef struct {
  char *namespace, *claim;
  gint64 at_s, at_us;
} Started;

struct MaterializeTurns {
  DeliveryCaches *caches;
  MaterializeWake wake;
  gpointer data;
  GrantProgress *progress;

  GMutex lock;         /* of what follows */
  GHashTable *waiting; /* "NAMESPACE/CLAIM" -> Waiting */
  GHashTable *started; /* the same -> Started: not in the caches yet */
  GHashTable *closed;  /* the same: no turn of it is taken */
  GHashTable *failed;  /* namespace -> Started: its last turn, of which nothing came */
  CopyPace *pace;      /* of grants */
};

static void
waiting_free (gpointer data)
{
  Waiting *self = data;
  g_free (self->namespace);
  g_free (self->claim);
  g_free (self->key);
  g_free (self);
}

static void
started_free (gpointer data)
{
  Started *self = data;
  g_free (self->namespace);
  g_free (self->claim);
  g_free (self);
}

static char *
key_of (const char *namespace, const char *claim)
{
  return g_strconcat (namespace, "/", claim, NULL);
}

static Started *
started_new (const char *namespace, const char *claim)
{
  Started *self = g_new0 (Started, 1);
  self->namespace = g_strdup (namespace);
  self->claim = g_strdup (claim);
  self->at_s = g_get_real_time () / G_USEC_PER_SEC;
  self->at_us = g_get_monotonic_time ();
  return self;
}

static void
forget_silent_locked (MaterializeTurns *self)
{
  GHashTableIter iter;
  gpointer value;
  gint64 now_us = g_get_monotonic_time ();
  g_hash_table_iter_init (&iter, self->waiting);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((Waiting *) value)->until_us < now_us)
      g_hash_table_iter_remove (&iter);
}

/* What domain/materialize_queue.h is asked about; owns what the requests borrow. */
typedef struct {
  GArray *requests;  /* of MaterializeRequest */
  GPtrArray *owners; /* of the same length: a Waiting, or NULL */
  GPtrArray *jobs;
} Question;

static void
question_clear (Question *self)
{
  g_array_unref (self->requests);
  g_ptr_array_unref (self->owners);
  g_ptr_array_unref (self->jobs);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Question, question_clear)

static void
add_request (Question *self, MaterializeRequest request, Waiting *owner)
{
  g_array_append_val (self->requests, request);
  g_ptr_array_add (self->owners, owner);
}

static MaterializeState
state_of (const MaterializeTurns *turns, const KubeObject *job)
{
  g_auto (MaterializeSight) sight = { 0 };
  const char *grant = materialize_job_grant (job);
  if (!materialize_job_is_unfinished (job))
    return MATERIALIZE_ENDED;
  g_autoptr (GPtrArray) pods = informer_find (turns->caches->job_pods, kube_object_uid (job));
  materialize_sight_read (job, pods, g_get_real_time () / G_USEC_PER_SEC, &sight);
  if (sight.is_overdue)
    return MATERIALIZE_ENDED;
  gint64 still_s = grant != NULL ? copy_pace_still_s (turns->pace, grant) : 0;
  return MAX (sight.idle_s, still_s) >= MATERIALIZE_STALLED_S ? MATERIALIZE_STALLED : MATERIALIZE_RUNS;
}

static void
add_jobs (Question *self, const MaterializeTurns *turns)
{
  for (guint i = 0; i < self->jobs->len; i++)
    {
      const KubeObject *job = g_ptr_array_index (self->jobs, i);
      if (materialize_job_is_ours (turns->caches->settings, job))
        add_request (self,
                     (MaterializeRequest){ .namespace = kube_object_namespace (job),
                                           .claim = materialize_job_claim (job),
                                           .state = state_of (turns, job),
                                           .job_started_s = kube_object_created_s (job) },
                     NULL);
    }
}

static void
add_started (Question *self, GHashTable *all, MaterializeState state)
{
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init (&iter, all);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Started *each = value;
      add_request (self, (MaterializeRequest){ each->namespace, each->claim, state, 0, each->at_s }, NULL);
    }
}

static void
add_waiting (Question *self, GHashTable *all)
{
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init (&iter, all);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Waiting *each = value;
      add_request (self,
                   (MaterializeRequest){ each->namespace, each->claim, MATERIALIZE_WAITS, each->claim_created_s, 0 },
                   each);
    }
}

static Question
question_locked (MaterializeTurns *self)
{
  Question question = {
    .requests = g_array_new (FALSE, FALSE, sizeof (MaterializeRequest)),
    .owners = g_ptr_array_new (),
    .jobs = informer_find (self->caches->jobs, NULL),
  };
  forget_silent_locked (self);
  add_jobs (&question, self);
  add_started (&question, self->started, MATERIALIZE_RUNS);
  add_started (&question, self->failed, MATERIALIZE_ENDED);
  add_waiting (&question, self->waiting);
  return question;
}

static GArray *
next_of (const MaterializeTurns *self, const Question *question)
{
  return materialize_queue_next ((const MaterializeRequest *) question->requests->data, question->requests->len,
                                 self->caches->settings->delivery.max_materializations);
}

/* Whether it is the turn of one that waits. */
static gboolean
is_next_locked (MaterializeTurns *self, const Waiting *waiting)
{
  g_auto (Question) question = question_locked (self);
  g_autoptr (GArray) next = next_of (self, &question);
  for (guint i = 0; i < next->len; i++)
    if (g_ptr_array_index (question.owners, g_array_index (next, guint, i)) == waiting)
      return TRUE;
  return FALSE;
}

/* Those whose turn has come are told, each once. */
static void
call_next (MaterializeTurns *self)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  g_mutex_lock (&self->lock);
  if (g_hash_table_size (self->waiting) > 0)
    {
      g_auto (Question) question = question_locked (self);
      g_autoptr (GArray) next = next_of (self, &question);
      for (guint i = 0; i < next->len; i++)
        {
          Waiting *waiting = g_ptr_array_index (question.owners, g_array_index (next, guint, i));
          if (waiting->is_called)
            continue;
          waiting->is_called = TRUE;
          waiting->until_us = MIN (waiting->until_us, g_get_monotonic_time () + CALLED_US);
          g_ptr_array_add (keys, g_strdup (waiting->key));
        }
    }
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < keys->len; i++)
    self->wake (g_ptr_array_index (keys, i), self->data);
}

static void
changed (DeliveryCache cache, const KubeObject *before, const KubeObject *now, gpointer data)
{
  MaterializeTurns *self = data;
  if (cache != DELIVERY_CACHE_JOBS)
    return;
  const char *claim = now != NULL ? materialize_job_claim (now) : NULL;
  if (claim != NULL)
    {
      g_autofree char *key = key_of (kube_object_namespace (now), claim);
      g_mutex_lock (&self->lock);
      g_hash_table_remove (self->started, key);
      g_mutex_unlock (&self->lock);
    }
  call_next (self);
}

MaterializeTurns *
materialize_turns_new (DeliveryCaches *caches, MaterializeWake wake, gpointer data)
{
  const ControllerSettings *settings = caches->settings;
  MaterializeTurns *self = g_new0 (MaterializeTurns, 1);
  GrantProgressConfig progress = {
    .registry = settings->registry,
    .peers = settings->delivery.registry_peers,
    .plain_http = settings->registry_plain_http,
    .ca_file = settings->registry_ca_file,
    .login_dir = settings->registry_login_dir,
  };
  g_mutex_init (&self->lock);
  self->caches = caches;
  self->wake = wake;
  self->data = data;
  self->progress = grant_progress_new (&progress);
  self->waiting = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, waiting_free);
  self->started = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, started_free);
  self->closed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->failed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, started_free);
  self->pace = copy_pace_new ();
  delivery_caches_listen (caches, changed, self);
  return self;
}

void
materialize_turns_free (MaterializeTurns *self)
{
  if (self == NULL)
    return;
  delivery_caches_listen (self->caches, NULL, self);
  grant_progress_free (self->progress);
  g_hash_table_unref (self->waiting);
  g_hash_table_unref (self->started);
  g_hash_table_unref (self->closed);
  g_hash_table_unref (self->failed);
  copy_pace_free (self->pace);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* One that runs and is not in the caches yet. */
static gboolean
note_running (KubeObject *job, gpointer data, GError **error)
{
  MaterializeTurns *self = data;
  const char *namespace = kube_object_namespace (job), *claim = materialize_job_claim (job);
  if (!materialize_job_is_ours (self->caches->settings, job) || !materialize_job_is_unfinished (job))
    return TRUE;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_autoptr (KubeObject) cached = informer_get (self->caches->jobs, namespace, kube_object_name (job));
  if (cached == NULL)
    g_hash_table_replace (self->started, key_of (namespace, claim), started_new (namespace, claim));
  return TRUE;
}

gboolean
materialize_turns_begin (Ctx *term, MaterializeTurns *self, GError **error)
{
  KubeTarget target = { .kind = &job_kind };
  KubeListOptions options = { .label_selector = APP_LABEL "=" MATERIALIZER_APP };
  g_mutex_lock (&self->lock);
  g_hash_table_remove_all (self->waiting);
  g_hash_table_remove_all (self->started);
  g_hash_table_remove_all (self->failed);
  g_mutex_unlock (&self->lock);
  return kube_client_list (term, self->caches->client, &target, &options, note_running, self, NULL, error);
}

static Waiting *
wait_locked (MaterializeTurns *self, const KubeObject *claim, const char *key)
{
  const char *namespace = kube_object_namespace (claim), *name = kube_object_name (claim);
  g_autofree char *place = key_of (namespace, name);
  Waiting *waiting = g_hash_table_lookup (self->waiting, place);
  if (waiting == NULL)
    {
      waiting = g_new0 (Waiting, 1);
      waiting->namespace = g_strdup (namespace);
      waiting->claim = g_strdup (name);
      g_hash_table_insert (self->waiting, g_steal_pointer (&place), waiting);
    }
  g_free (waiting->key);
  waiting->key = g_strdup (key);
  waiting->claim_created_s = kube_object_created_s (claim);
  waiting->until_us = g_get_monotonic_time () + WAIT_US;
  return waiting;
}

gboolean
materialize_turns_ask (MaterializeTurns *self, const KubeObject *claim, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Waiting *waiting = wait_locked (self, claim, key);
  waiting->is_called = is_next_locked (self, waiting);
  return waiting->is_called;
}

gboolean
materialize_turns_take (MaterializeTurns *self, const KubeObject *claim)
{
  const char *namespace = kube_object_namespace (claim), *name = kube_object_name (claim);
  g_autofree char *place = key_of (namespace, name);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Waiting *waiting = g_hash_table_lookup (self->waiting, place);
  if (waiting != NULL && g_hash_table_contains (self->closed, place))
    waiting->is_called = FALSE; /* it is called again when that is opened */
  if (waiting == NULL || g_hash_table_contains (self->started, place) || g_hash_table_contains (self->closed, place)
      || !is_next_locked (self, waiting))
    return FALSE;
  g_hash_table_remove (self->waiting, place);
  g_hash_table_insert (self->started, g_steal_pointer (&place), started_new (namespace, name));
  return TRUE;
}

void
materialize_turns_give_back (MaterializeTurns *self, const KubeObject *claim)
{
  const char *namespace = kube_object_namespace (claim), *name = kube_object_name (claim);
  g_autofree char *place = key_of (namespace, name);
  g_mutex_lock (&self->lock);
  g_hash_table_remove (self->started, place);
  g_hash_table_remove (self->waiting, place);
  g_hash_table_replace (self->failed, g_strdup (namespace), started_new (namespace, name));
  g_mutex_unlock (&self->lock);
  call_next (self);
}

gboolean
materialize_turns_close (MaterializeTurns *self, const char *namespace, const char *claim)
{
  g_autofree char *place = key_of (namespace, claim);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return !g_hash_table_contains (self->started, place) && g_hash_table_add (self->closed, g_steal_pointer (&place));
}

void
materialize_turns_open (MaterializeTurns *self, const char *namespace, const char *claim)
{
  g_autofree char *place = key_of (namespace, claim);
  g_mutex_lock (&self->lock);
  g_hash_table_remove (self->closed, place);
  g_mutex_unlock (&self->lock);
  call_next (self);
}

/* "NAMESPACE/CLAIM" of those that were started long ago, and namespaces whose last turn is of no account any more. */
static GPtrArray *
take_unseen (MaterializeTurns *self)
{
  GHashTableIter iter;
  gpointer key, value;
  gint64 then_us = g_get_monotonic_time () - UNSEEN_US;
  GPtrArray *unseen = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_hash_table_iter_init (&iter, self->started);
  while (g_hash_table_iter_next (&iter, &key, &value))
    if (((Started *) value)->at_us < then_us)
      g_ptr_array_add (unseen, g_strdup (key));
  g_hash_table_iter_init (&iter, self->failed);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (((Started *) value)->at_us < then_us - MATERIALIZER_RETRY_S * G_USEC_PER_SEC)
      g_hash_table_iter_remove (&iter);
  copy_pace_forget (self->pace, g_get_monotonic_time () - PACE_US);
  return unseen;
}

void
materialize_turns_check (Ctx *term, MaterializeTurns *self)
{
  g_autoptr (GPtrArray) unseen = take_unseen (self);
  for (guint i = 0; i < unseen->len; i++)
    {
      const char *place = g_ptr_array_index (unseen, i);
      g_auto (GStrv) parts = g_strsplit (place, "/", 2);
      g_autofree char *name = materialize_job_name (parts[1]);
      g_autoptr (GError) error = NULL;
      KubeTarget target = { .kind = &job_kind, .namespace = parts[0], .name = name };
      g_autoptr (KubeObject) job = kube_client_get (term, self->caches->client, &target, &error);
      if (job != NULL && materialize_job_is_ours (self->caches->settings, job) && materialize_job_is_unfinished (job))
        continue;
      if (job == NULL && !am_error_is (error, AM_ERROR_NOT_FOUND))
        {
          am_ignore (&error, "it is asked for again");
          continue;
        }
      g_mutex_lock (&self->lock);
      g_hash_table_remove (self->started, place);
      g_mutex_unlock (&self->lock);
    }
  call_next (self);
}

MaterializeCounts
materialize_turns_count (MaterializeTurns *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_auto (Question) question = question_locked (self);
  MaterializeCounts counts = { .n_max = self->caches->settings->delivery.max_materializations };
  for (guint i = 0; i < question.requests->len; i++)
    {
      MaterializeState state = g_array_index (question.requests, MaterializeRequest, i).state;
      counts.n_running += state == MATERIALIZE_RUNS;
      counts.n_queued += state == MATERIALIZE_WAITS;
    }
  return counts;
}

gboolean
materialize_turns_read (Ctx *ctx, MaterializeTurns *self, const KubeObject *job, guint64 *out_read_bytes)
{
  g_autoptr (GError) error = NULL;
  const char *id = materialize_job_grant (job);
  if (id == NULL)
    return FALSE;
  if (grant_progress_read (ctx, self->progress, id, out_read_bytes, &error))
    {
      g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
      copy_pace_note (self->pace, id, *out_read_bytes, g_get_monotonic_time ());
      return TRUE;
    }
  am_ignore (&error, "how far it is, is told next time");
  return FALSE;
}

const DeliveryCaches *
materialize_turns_caches (const MaterializeTurns *self)
{
  return self->caches;
}
