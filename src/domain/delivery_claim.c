#include "domain/delivery_claim.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

#define MIN_ETA_S 5 /* before that a rate says nothing */
#define MAX_ETA_S (1000.0 * 3600)

void
claim_decision_clear (ClaimDecision *self)
{
  g_clear_pointer (&self->message, g_free);
}

static ClaimDecision wait_for (ClaimStep step, DeliveryReason reason, const char *format, ...) G_GNUC_PRINTF (3, 4);

static ClaimDecision
wait_for (ClaimStep step, DeliveryReason reason, const char *format, ...)
{
  va_list arguments;
  va_start (arguments, format);
  char *message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  return (ClaimDecision){ step, reason, message };
}

static ClaimDecision
decide_by_class (const StorageClassChoice *choice)
{
  static const DeliveryReason reasons[] = {
    [STORAGE_CLASS_NONE] = DELIVERY_CLASS_MISSING,
    [STORAGE_CLASS_UNKNOWN] = DELIVERY_CLASS_MISSING,
    [STORAGE_CLASS_AMBIGUOUS] = DELIVERY_CLASS_AMBIGUOUS,
    [STORAGE_CLASS_DEFERS] = DELIVERY_CLASS_DEFERS,
  };
  return (ClaimDecision){ CLAIM_STEP_NONE, reasons[choice->finding], storage_class_message (choice) };
}

/* First nothing uses the old volume any more, then another may come by the same name. */
static ClaimDecision
decide_going (const ClaimView *seen)
{
  return wait_for (seen->job != MATERIALIZER_ABSENT ? CLAIM_STEP_REMOVE_JOB : CLAIM_STEP_NONE, DELIVERY_CLAIM_PENDING,
                   "model %s: claim %s is being deleted, which waits for the Pods that use it; then another is made",
                   seen->model, seen->name);
}

static ClaimDecision
decide_absent (const ClaimView *seen, const StorageClassChoice *choice)
{
  if (choice->finding != STORAGE_CLASS_FINE)
    return decide_by_class (choice);
  if (seen->has_open_users)
    return wait_for (CLAIM_STEP_NONE, DELIVERY_CLAIM_PENDING,
                     "model %s: claim %s is gone and is made again when no Pod would start before the model is there",
                     seen->model, seen->name);
  return wait_for (seen->job != MATERIALIZER_ABSENT ? CLAIM_STEP_REMOVE_JOB : CLAIM_STEP_CREATE,
                   DELIVERY_CLAIM_PENDING, "model %s: claim %s is being made, of StorageClass %s", seen->model,
                   seen->name, choice->name);
}

static ClaimDecision
decide_pending (const ClaimView *seen, const StorageClassChoice *choice)
{
  if (choice->finding != STORAGE_CLASS_FINE)
    return decide_by_class (choice);
  if (g_strcmp0 (seen->storage_class, choice->name) != 0)
    return wait_for (CLAIM_STEP_REMOVE, DELIVERY_CLAIM_PENDING,
                     "model %s: claim %s was not bound by StorageClass %s and is made anew, of %s", seen->model,
                     seen->name, seen->storage_class != NULL ? seen->storage_class : "(none)", choice->name);
  ClaimStep step = seen->is_held ? CLAIM_STEP_NONE : CLAIM_STEP_HOLD;
  if (seen->refusal != NULL)
    return wait_for (step, DELIVERY_PROVISIONING_FAILED, "%s", seen->refusal);
  if (seen->age_s > CLAIM_PROVISIONING_S)
    return wait_for (
      step, DELIVERY_PROVISIONING_TIMED_OUT,
      "model %s: claim %s has not been bound for more than %d minutes and its provisioner says nothing: "
      "look at the provisioner of StorageClass %s",
      seen->model, seen->name, CLAIM_PROVISIONING_S / 60, choice->name);
  return wait_for (step, DELIVERY_CLAIM_PENDING, "model %s: claim %s waits for a volume of StorageClass %s",
                   seen->model, seen->name, choice->name);
}

/* Rounded up, since it is a guess: "about 40 s", "about 3 min", "about 5 h". Caller frees. */
static char *
about (double seconds)
{
  if (seconds < 60)
    return g_strdup_printf ("about %u s", (guint) MAX (10, 10 * ceil (seconds / 10)));
  if (seconds < 3600)
    return g_strdup_printf ("about %u min", (guint) ceil (seconds / 60));
  return g_strdup_printf ("about %u h", (guint) ceil (MIN (seconds, MAX_ETA_S) / 3600));
}

char *
claim_copy_progress (guint64 read_bytes, guint64 size_bytes, gint64 elapsed_s)
{
  guint64 done_bytes = MIN (read_bytes, size_bytes);
  g_autofree char *done = text_bytes (done_bytes), *size = text_bytes (size_bytes);
  if (done_bytes == size_bytes)
    return g_strdup_printf ("%s of %s, about to be complete", done, size);
  if (elapsed_s < MIN_ETA_S || done_bytes == 0)
    return g_strdup_printf ("%s of %s", done, size);
  double left = (double) (size_bytes - done_bytes) * (double) elapsed_s / (double) done_bytes;
  g_autofree char *guess = about (left);
  return g_strdup_printf ("%s of %s, %s left", done, size, guess);
}

static ClaimDecision
decide_copy (const ClaimView *seen)
{
  const char *more = seen->job_message;
  if (seen->job == MATERIALIZER_SUCCEEDED)
    return wait_for (CLAIM_STEP_MARK, DELIVERY_MATERIALIZER_PENDING, "model %s: the copy is complete", seen->model);
  if (seen->job == MATERIALIZER_RUNNING)
    return wait_for (CLAIM_STEP_NONE, DELIVERY_MATERIALIZER_PENDING, "model %s is being copied to claim %s%s%s",
                     seen->model, seen->name, more != NULL ? ": " : "", more != NULL ? more : "");
  if (seen->job == MATERIALIZER_FAILED)
    return wait_for (seen->job_ended_ago_s >= MATERIALIZER_RETRY_S ? CLAIM_STEP_REMOVE_JOB : CLAIM_STEP_NONE,
                     DELIVERY_MATERIALIZER_FAILED, "model %s could not be copied to claim %s and is tried again: %s",
                     seen->model, seen->name, more != NULL ? more : "its Job does not say why");
  if (!seen->has_slot)
    return wait_for (CLAIM_STEP_NONE, DELIVERY_MATERIALIZER_PENDING,
                     "model %s waits for its turn to be copied (delivery.maxConcurrentMaterializations)",
                     seen->model);
  return wait_for (CLAIM_STEP_START_JOB, DELIVERY_MATERIALIZER_PENDING, "model %s is about to be copied to claim %s",
                   seen->model, seen->name);
}

static ClaimDecision
decide_bound (const ClaimView *seen)
{
  if (seen->is_whole)
    return (ClaimDecision){ seen->is_held ? CLAIM_STEP_NONE : CLAIM_STEP_HOLD, DELIVERY_UNHINDERED, NULL };
  if (!seen->is_held)
    return wait_for (CLAIM_STEP_HOLD, DELIVERY_MATERIALIZER_PENDING, "model %s is about to be copied to claim %s",
                     seen->model, seen->name);
  if (seen->job != MATERIALIZER_ABSENT && seen->job_is_older)
    return wait_for (CLAIM_STEP_REMOVE_JOB, DELIVERY_MATERIALIZER_PENDING,
                     "model %s: the Job of an earlier claim %s is being removed", seen->model, seen->name);
  return decide_copy (seen);
}

void
claim_decide (const ClaimView *seen, const StorageClassChoice *choice, ClaimDecision *out_decision)
{
  if (seen->phase == CLAIM_ABSENT)
    *out_decision = decide_absent (seen, choice);
  else if (!seen->is_ours || !seen->is_shared)
    *out_decision = wait_for (CLAIM_STEP_NONE, DELIVERY_INVALID_SPEC, "model %s: claim %s %s: remove it", seen->model,
                              seen->name,
                              seen->is_ours ? "cannot be shared (ReadWriteMany)" : "was not made by this module");
  else if (seen->is_deleting)
    *out_decision = decide_going (seen);
  else if (seen->phase == CLAIM_LOST)
    *out_decision = wait_for (
      CLAIM_STEP_NONE, DELIVERY_CLAIM_LOST,
      "model %s: claim %s has lost its PersistentVolume: restore it, or delete the claim, and "
      "the model is copied anew",
      seen->model, seen->name);
  else if (seen->phase == CLAIM_PENDING)
    *out_decision = decide_pending (seen, choice);
  else
    *out_decision = decide_bound (seen);
}

gboolean
claim_serves (const ClaimView *seen)
{
  return seen->is_whole && (seen->phase == CLAIM_BOUND || seen->phase == CLAIM_LOST);
}

/* What a lost claim held may be looked for: only people delete it. */
ClaimFate
claim_fate (const ClaimUse *use, gint64 now_s)
{
  gboolean is_kept = use->n_holders > 0 || use->is_in_use;
  if (use->is_deleting)
    return CLAIM_KEEP;
  if (is_kept || use->phase == CLAIM_LOST)
    return use->released_s != 0 ? CLAIM_CLEAR_RELEASED : CLAIM_KEEP;
  if (use->phase != CLAIM_BOUND)
    return CLAIM_DELETE;
  if (use->released_s <= 0 || use->released_s > now_s)
    return CLAIM_WRITE_RELEASED;
  return now_s - use->released_s >= CLAIM_GRACE_S ? CLAIM_DELETE : CLAIM_KEEP;
}
