#include "domain/delivery_claim.h"

#include <string.h>

static const StorageClassChoice fine = { STORAGE_CLASS_FINE, "fast" };
static const StorageClassChoice none = { STORAGE_CLASS_NONE, NULL }, unknown = { STORAGE_CLASS_UNKNOWN, "gone" };
static const StorageClassChoice ambiguous = { STORAGE_CLASS_AMBIGUOUS, NULL },
                                defers = { STORAGE_CLASS_DEFERS, "late" };

#define ANY .model = "m", .name = "c", .is_ours = TRUE, .is_shared = TRUE, .is_held = TRUE, .storage_class = "fast"
#define GONE .model = "m", .name = "c"
#define WAITS ANY, .phase = CLAIM_PENDING
#define BOUND ANY, .phase = CLAIM_BOUND
#define WHOLE BOUND, .is_whole = TRUE

#pragma GCC diagnostic ignored "-Woverride-init"

static const struct {
  const char *what;
  ClaimView seen;
  const StorageClassChoice *choice;
  ClaimStep step;
  DeliveryReason reason;
  const char *message; /* a part of it; NULL: none */
} rows[] = {
  { "absent",
    { GONE },
    &fine,
    CLAIM_STEP_CREATE,
    DELIVERY_CLAIM_PENDING,
    "claim c is being made, of StorageClass fast" },
  { "absent, a Job of an earlier one",
    { GONE, .job = MATERIALIZER_RUNNING },
    &fine,
    CLAIM_STEP_REMOVE_JOB,
    DELIVERY_CLAIM_PENDING,
    "model m" },
  { "absent, Pods wait for it without a gate",
    { GONE, .has_open_users = TRUE },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_PENDING,
    "is gone" },
  { "absent, no class", { GONE }, &none, CLAIM_STEP_NONE, DELIVERY_CLASS_MISSING, "no StorageClass" },
  { "absent, class missing", { GONE }, &unknown, CLAIM_STEP_NONE, DELIVERY_CLASS_MISSING, "StorageClass gone" },
  { "absent, two defaults", { GONE }, &ambiguous, CLAIM_STEP_NONE, DELIVERY_CLASS_AMBIGUOUS, "several" },
  { "absent, class defers", { GONE }, &defers, CLAIM_STEP_NONE, DELIVERY_CLASS_DEFERS, "WaitForFirstConsumer" },

  { "pending", { WAITS }, &fine, CLAIM_STEP_NONE, DELIVERY_CLAIM_PENDING, "waits for a volume of StorageClass fast" },
  { "pending at the limit",
    { WAITS, .age_s = 600 },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_PENDING,
    "waits for a volume" },
  { "pending beyond it",
    { WAITS, .age_s = 601 },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_PROVISIONING_TIMED_OUT,
    "more than 10 minutes" },
  { "pending, a clock that is behind",
    { WAITS, .age_s = -50 },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_PENDING,
    "waits" },
  { "refused, word by word",
    { WAITS, .refusal = "rpc error: 100% no quota" },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_PROVISIONING_FAILED,
    "rpc error: 100% no quota" },
  { "refused for long",
    { WAITS, .refusal = "no quota", .age_s = 6000 },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_PROVISIONING_FAILED,
    "no quota" },
  { "pending, another's", { WAITS, .is_held = FALSE }, &fine, CLAIM_STEP_HOLD, DELIVERY_CLAIM_PENDING, "waits" },
  { "refused, another's",
    { WAITS, .is_held = FALSE, .refusal = "no" },
    &fine,
    CLAIM_STEP_HOLD,
    DELIVERY_PROVISIONING_FAILED,
    "no" },
  { "pending, the setting has changed",
    { WAITS, .storage_class = "slow", .refusal = "no" },
    &fine,
    CLAIM_STEP_REMOVE,
    DELIVERY_CLAIM_PENDING,
    "not bound by StorageClass slow and is made anew, of fast" },
  { "pending without a class",
    { WAITS, .storage_class = NULL },
    &fine,
    CLAIM_STEP_REMOVE,
    DELIVERY_CLAIM_PENDING,
    "StorageClass (none)" },
  { "pending, its class is gone", { WAITS }, &unknown, CLAIM_STEP_NONE, DELIVERY_CLASS_MISSING, "StorageClass gone" },
  { "pending, its class defers", { WAITS }, &defers, CLAIM_STEP_NONE, DELIVERY_CLASS_DEFERS, "late" },

  { "lost",
    { ANY, .phase = CLAIM_LOST },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_LOST,
    "has lost its PersistentVolume" },
  { "lost when whole",
    { ANY, .phase = CLAIM_LOST, .is_whole = TRUE },
    &none,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_LOST,
    "claim c" },
  { "lost and deleted",
    { ANY, .phase = CLAIM_LOST, .is_deleting = TRUE },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_PENDING,
    "is being deleted" },
  { "deleted under its Job",
    { BOUND, .is_deleting = TRUE, .job = MATERIALIZER_RUNNING },
    &fine,
    CLAIM_STEP_REMOVE_JOB,
    DELIVERY_CLAIM_PENDING,
    "is being deleted" },
  { "deleted under its Pods",
    { WHOLE, .is_deleting = TRUE },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_PENDING,
    "is being deleted" },
  { "deleted while pending",
    { WAITS, .is_deleting = TRUE },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_CLAIM_PENDING,
    "is being deleted" },

  { "somebody else's claim",
    { WHOLE, .is_ours = FALSE },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_INVALID_SPEC,
    "claim c was not made by this module: remove it" },
  { "for one node", { BOUND, .is_shared = FALSE }, &fine, CLAIM_STEP_NONE, DELIVERY_INVALID_SPEC, "ReadWriteMany" },

  { "bound", { BOUND, .has_slot = TRUE }, &fine, CLAIM_STEP_START_JOB, DELIVERY_MATERIALIZER_PENDING, "to claim c" },
  { "bound, of a class that is set no more",
    { BOUND, .has_slot = TRUE, .storage_class = "slow" },
    &none,
    CLAIM_STEP_START_JOB,
    DELIVERY_MATERIALIZER_PENDING,
    "model m" },
  { "bound, others are copied",
    { BOUND },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_MATERIALIZER_PENDING,
    "waits for its turn" },
  { "bound, another's",
    { BOUND, .is_held = FALSE, .has_slot = TRUE },
    &fine,
    CLAIM_STEP_HOLD,
    DELIVERY_MATERIALIZER_PENDING,
    "model m" },
  { "copied",
    { BOUND, .job = MATERIALIZER_RUNNING },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_MATERIALIZER_PENDING,
    "being copied" },
  { "copied, so far",
    { BOUND, .job = MATERIALIZER_RUNNING, .job_message = "40%, 2 minutes left" },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_MATERIALIZER_PENDING,
    "to claim c: 40%, 2 minutes left" },
  { "complete",
    { BOUND, .job = MATERIALIZER_SUCCEEDED },
    &fine,
    CLAIM_STEP_MARK,
    DELIVERY_MATERIALIZER_PENDING,
    "complete" },
  { "failed",
    { BOUND, .job = MATERIALIZER_FAILED, .job_message = "no space left on the volume" },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_MATERIALIZER_FAILED,
    "tried again: no space left on the volume" },
  { "failed, says nothing",
    { BOUND, .job = MATERIALIZER_FAILED, .job_ended_ago_s = 299, .has_slot = TRUE },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_MATERIALIZER_FAILED,
    "does not say why" },
  { "failed some time ago",
    { BOUND, .job = MATERIALIZER_FAILED, .job_ended_ago_s = 300 },
    &fine,
    CLAIM_STEP_REMOVE_JOB,
    DELIVERY_MATERIALIZER_FAILED,
    "model m" },
  { "the Job of an earlier claim ended well",
    { BOUND, .job = MATERIALIZER_SUCCEEDED, .job_is_older = TRUE },
    &fine,
    CLAIM_STEP_REMOVE_JOB,
    DELIVERY_MATERIALIZER_PENDING,
    "earlier claim" },

  { "whole", { WHOLE }, &fine, CLAIM_STEP_NONE, DELIVERY_UNHINDERED, NULL },
  { "whole, whatever the class",
    { WHOLE, .storage_class = "slow" },
    &none,
    CLAIM_STEP_NONE,
    DELIVERY_UNHINDERED,
    NULL },
  { "whole, another's", { WHOLE, .is_held = FALSE }, &fine, CLAIM_STEP_HOLD, DELIVERY_UNHINDERED, NULL },
  { "whole, and a Job runs once more",
    { WHOLE, .job = MATERIALIZER_RUNNING },
    &fine,
    CLAIM_STEP_NONE,
    DELIVERY_UNHINDERED,
    NULL },
};

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (ClaimDecision) got = { 0 };
      claim_decide (&rows[i].seen, rows[i].choice, &got);
      g_test_message ("%s: %s", rows[i].what, got.message != NULL ? got.message : "-");
      g_assert_cmpint (got.step, ==, rows[i].step);
      g_assert_cmpint (got.reason, ==, rows[i].reason);
      g_assert_true (rows[i].message == NULL ? got.message == NULL : strstr (got.message, rows[i].message) != NULL);
      if (got.reason == DELIVERY_PROVISIONING_FAILED)
        g_assert_cmpstr (got.message, ==, rows[i].seen.refusal);
    }
}

/* Every view there is, as a number in a mixed base. */
static gboolean
nth_view (guint n, ClaimView *out_view)
{
  static const guint bases[] = { 4, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4, 2, 2, 2 };
  guint digits[G_N_ELEMENTS (bases)];
  for (gsize i = 0; i < G_N_ELEMENTS (bases); i++)
    {
      digits[i] = n % bases[i];
      n /= bases[i];
    }
  *out_view = (ClaimView){
    .model = "m",
    .name = "c",
    .phase = digits[0],
    .is_deleting = digits[1] != 0,
    .is_ours = digits[2] != 0,
    .is_shared = digits[3] != 0,
    .is_held = digits[4] != 0,
    .is_whole = digits[5] != 0,
    .has_open_users = digits[6] != 0,
    .storage_class = digits[7] != 0 ? "fast" : "slow",
    .refusal = digits[8] != 0 ? "no" : NULL,
    .age_s = digits[9] != 0 ? 1000 : 1,
    .job = digits[10],
    .job_is_older = digits[11] != 0,
    .has_slot = digits[12] != 0,
    .job_ended_ago_s = digits[13] != 0 ? 1000 : 1,
  };
  return n == 0;
}

static void
check_view (const ClaimView *seen, const StorageClassChoice *choice)
{
  g_auto (ClaimDecision) got = { 0 };
  claim_decide (seen, choice, &got);
  g_assert_cmpint (got.message == NULL, ==, got.reason == DELIVERY_UNHINDERED);
  if (got.reason == DELIVERY_UNHINDERED)
    g_assert_true (claim_serves (seen) && seen->phase == CLAIM_BOUND && seen->is_ours && !seen->is_deleting);
  if (got.step == CLAIM_STEP_CREATE)
    g_assert_true (seen->phase == CLAIM_ABSENT && !seen->has_open_users && choice->finding == STORAGE_CLASS_FINE
                   && seen->job == MATERIALIZER_ABSENT);
  if (got.step == CLAIM_STEP_REMOVE) /* nothing is in it */
    g_assert_true (seen->phase == CLAIM_PENDING && seen->is_ours);
  if (got.step == CLAIM_STEP_START_JOB)
    g_assert_true (seen->phase == CLAIM_BOUND && seen->is_held && !seen->is_whole && seen->job == MATERIALIZER_ABSENT
                   && seen->has_slot && seen->is_ours && !seen->is_deleting);
  if (got.step == CLAIM_STEP_MARK)
    g_assert_true (seen->job == MATERIALIZER_SUCCEEDED && !seen->job_is_older && seen->phase == CLAIM_BOUND);
  if (got.step == CLAIM_STEP_HOLD)
    g_assert_true (!seen->is_held && !seen->is_deleting);
  if (!seen->is_ours && seen->phase != CLAIM_ABSENT)
    g_assert_cmpint (got.step, ==, CLAIM_STEP_NONE);
}

static void
test_all_views (void)
{
  static const StorageClassChoice *const choices[] = { &fine, &none, &unknown, &ambiguous, &defers };
  ClaimView seen;
  for (guint n = 0; nth_view (n, &seen); n++)
    check_view (&seen, choices[n % G_N_ELEMENTS (choices)]);
}

#define NOW 1800000000

static void
test_fates (void)
{
  static const struct {
    const char *what;
    ClaimUse use;
    ClaimFate fate;
  } cases[] = {
    { "held", { CLAIM_BOUND, .n_holders = 1 }, CLAIM_KEEP },
    { "held again", { CLAIM_BOUND, .n_holders = 1, .released_s = NOW - 9999 }, CLAIM_CLEAR_RELEASED },
    { "released", { CLAIM_BOUND }, CLAIM_WRITE_RELEASED },
    { "released a while ago", { CLAIM_BOUND, .released_s = NOW - 599 }, CLAIM_KEEP },
    { "released long ago", { CLAIM_BOUND, .released_s = NOW - 600 }, CLAIM_DELETE },
    { "released long ago, Pods still use it",
      { CLAIM_BOUND, .released_s = NOW - 600, .is_in_use = TRUE },
      CLAIM_CLEAR_RELEASED },
    { "Pods of an orphaned set", { CLAIM_BOUND, .is_in_use = TRUE }, CLAIM_KEEP },
    { "a time that will be", { CLAIM_BOUND, .released_s = NOW + 99999 }, CLAIM_WRITE_RELEASED },
    { "a time that never was", { CLAIM_BOUND, .released_s = -5 }, CLAIM_WRITE_RELEASED },
    { "never bound", { CLAIM_PENDING }, CLAIM_DELETE },
    { "never bound, held", { CLAIM_PENDING, .n_holders = 1 }, CLAIM_KEEP },
    { "lost", { CLAIM_LOST, .released_s = NOW - 600 }, CLAIM_CLEAR_RELEASED },
    { "lost, not written", { CLAIM_LOST }, CLAIM_KEEP },
    { "on its way", { CLAIM_BOUND, .is_deleting = TRUE, .released_s = NOW - 600 }, CLAIM_KEEP },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s", cases[i].what);
      g_assert_cmpint (claim_fate (&cases[i].use, NOW), ==, cases[i].fate);
    }
}

/* The words of conditions-reasons-events.md, "Delivery". */
static void
test_reasons (void)
{
  static const char *const lines[DELIVERY_N_REASONS] = {
    [DELIVERY_UNHINDERED] = "- -",
    [DELIVERY_MODEL_PENDING] = "ModelDeliveryPending Normal/ModelDeliveryPending",
    [DELIVERY_INVALID_REFERENCE] = "InvalidModelReference Warning/InvalidModelReference",
    [DELIVERY_INVALID_SPEC] = "InvalidSpec Warning/ModelDeliveryBlocked",
    [DELIVERY_NODE_CACHE_DISABLED] = "NodeCacheDeliveryDisabled Normal/ModelDeliveryPending",
    [DELIVERY_CLASS_MISSING] = "SharedPVCStorageClassMissing Warning/ModelDeliveryBlocked",
    [DELIVERY_CLASS_AMBIGUOUS] = "SharedPVCStorageClassAmbiguous Warning/ModelDeliveryBlocked",
    [DELIVERY_CLASS_DEFERS] = "SharedPVCStorageClassDefersBinding Warning/ModelDeliveryBlocked",
    [DELIVERY_CLAIM_PENDING] = "SharedPVCClaimPending Normal/ModelDeliveryPending",
    [DELIVERY_PROVISIONING_FAILED] = "SharedPVCProvisioningFailed Warning/ModelDeliveryBlocked",
    [DELIVERY_PROVISIONING_TIMED_OUT] = "SharedPVCProvisioningTimedOut Warning/ModelDeliveryBlocked",
    [DELIVERY_CLAIM_LOST] = "SharedPVCClaimLost Warning/ModelDeliveryBlocked",
    [DELIVERY_MATERIALIZER_PENDING] = "SharedPVCMaterializerPending Normal/ModelDeliveryPending",
    [DELIVERY_MATERIALIZER_FAILED] = "SharedPVCMaterializerFailed Normal/ModelDeliveryPending",
  };
  for (guint i = 0; i < DELIVERY_N_REASONS; i++)
    {
      const char *name = delivery_reason_name (i);
      DeliveryEvent event = delivery_reason_event (i);
      g_autofree char *line = name != NULL
                                ? g_strdup_printf ("%s %s/%s", name,
                                                   delivery_event_is_warning (event) ? "Warning" : "Normal",
                                                   delivery_event_name (event))
                                : g_strdup ("- -");
      g_assert_cmpstr (line, ==, lines[i]);
    }
}

static void
test_copy_progress (void)
{
  static const struct {
    guint64 read_bytes, size_bytes;
    gint64 elapsed_s;
    const char *expected;
  } steps[] = {
    { 0, 4800000000, 600, "0 B of 4.8 GB" },
    { 1200000000, 4800000000, 4, "1.2 GB of 4.8 GB" },
    { 1200000000, 4800000000, 5, "1.2 GB of 4.8 GB, about 20 s left" },
    { 4799999999, 4800000000, 500, "4.8 GB of 4.8 GB, about 10 s left" },
    { 1200000000, 4800000000, 60, "1.2 GB of 4.8 GB, about 3 min left" },
    { 1200000000, 4800000000, 3600, "1.2 GB of 4.8 GB, about 3 h left" },
    { 1, G_MAXUINT64, G_MAXINT64, "1 B of 18.4 EB, about 1000 h left" },
    { 5000000000, 4800000000, 60, "4.8 GB of 4.8 GB, about to be complete" },
    { 0, 0, 0, "0 B of 0 B, about to be complete" },
    { 1, 4800000000, -5, "1 B of 4.8 GB" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (steps); i++)
    {
      g_autofree char *words = claim_copy_progress (steps[i].read_bytes, steps[i].size_bytes, steps[i].elapsed_s);
      g_assert_cmpstr (words, ==, steps[i].expected);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery-claim/rows", test_rows);
  g_test_add_func ("/delivery-claim/all-views", test_all_views);
  g_test_add_func ("/delivery-claim/copy-progress", test_copy_progress);
  g_test_add_func ("/delivery-claim/fates", test_fates);
  g_test_add_func ("/delivery-claim/reasons", test_reasons);
  return g_test_run ();
}
