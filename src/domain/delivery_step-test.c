#include "domain/delivery_step.h"

#include <string.h>

#include "base/error.h"

#define DIGEST "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define CLAIM(m) \
  .model = m, .name = "c-" m, .is_ours = TRUE, .is_shared = TRUE, .is_held = TRUE, .storage_class = "fast"

#pragma GCC diagnostic ignored "-Woverride-init"

static const ClaimView absent = { .model = "a", .name = "c-a" };
static const ClaimView pending = { CLAIM ("a"), .phase = CLAIM_PENDING };
static const ClaimView refused = { CLAIM ("a"), .phase = CLAIM_PENDING, .refusal = "no quota" };
static const ClaimView silent = { CLAIM ("a"), .phase = CLAIM_PENDING, .age_s = 601 };
static const ClaimView lost = { CLAIM ("a"), .phase = CLAIM_LOST, .is_whole = TRUE };
static const ClaimView foreign = { CLAIM ("a"), .phase = CLAIM_BOUND, .is_ours = FALSE };
static const ClaimView bound = { CLAIM ("a"), .phase = CLAIM_BOUND, .has_slot = TRUE };
static const ClaimView queued = { CLAIM ("a"), .phase = CLAIM_BOUND };
static const ClaimView copied = { CLAIM ("a"), .phase = CLAIM_BOUND, .job = MATERIALIZER_RUNNING };
static const ClaimView failed = { CLAIM ("a"), .phase = CLAIM_BOUND, .job = MATERIALIZER_FAILED,
                                  .job_message = "volume full" };
static const ClaimView whole = { CLAIM ("a"), .phase = CLAIM_BOUND, .is_whole = TRUE };
static const ClaimView whole_of_another = { CLAIM ("a"), .phase = CLAIM_BOUND, .is_whole = TRUE, .is_held = FALSE };
static const ClaimView going = { CLAIM ("a"), .phase = CLAIM_BOUND, .is_whole = TRUE, .is_deleting = TRUE };

/* Models "a" and "b", of which `n` are asked for; b's claim is whole unless said otherwise. */
typedef enum { GOOD, MISSING, PUBLISHING, PHASELESS } ModelSeen;
typedef enum { CLASS_FINE, CLASS_NONE, CLASS_UNKNOWN, CLASS_TWO, CLASS_DEFERS } ClassSeen;
typedef enum { SPEC_GOOD, SPEC_BAD, SPEC_NODE_CACHE, REFERENCE_BAD } ErrorSeen;

typedef struct {
  const char *what;
  gsize n_models;
  ModelSeen model;
  const ClaimView *claim, *second; /* NULL: whole */
  DeliveryTemplate template;
  ClassSeen class;
  ErrorSeen error;
  gboolean is_current, no_finalizer, is_deleting, is_in_module_namespace, has_open_pods, has_obsolete;
  gboolean is_unobserved;
  guint n_held_claims;
  const char *reported_reason, *reported_message;
  /* expected: */
  const char *line;    /* "FORM REASON EVENT RELEASE FINALIZER": as `shown` writes it */
  const char *message; /* a part of it; NULL: none */
  const char *steps;   /* "create -": of each model; NULL: none at all */
} Row;

#define HELD .n_models = 1, .template = DELIVERY_TEMPLATE_HELD
#define SERVED .n_models = 1, .template = DELIVERY_TEMPLATE_SERVING

static const Row rows[] = {
  /* references */
  { "no reference, nothing of ours", .no_finalizer = TRUE, .line = "keep - - all" },
  { "no reference, nothing of ours, claims are held", .n_held_claims = 1, .line = "keep - - all finalizer" },
  { "no reference any more, all is released", .line = "keep - - all" },
  { "reference removed", .template = DELIVERY_TEMPLATE_OTHER, .n_held_claims = 2,
    .line = "clear - ModelDeliveryRemoved all finalizer", .message = "no model is asked for" },
  { "reference removed while held", .template = DELIVERY_TEMPLATE_HELD, .reported_reason = "SharedPVCClaimPending",
    .reported_message = "x", .line = "clear -! ModelDeliveryRemoved all finalizer", .message = "no model" },
  { "reference removed while held, its controller has not seen it", .is_unobserved = TRUE,
    .line = "keep - - all finalizer" },
  { "reference removed while held, Pods wait for good", .has_obsolete = TRUE,
    .line = "keep - - all finalizer removes-obsolete" },
  { "nothing of ours in the template, Pods wait for good, not ours", .no_finalizer = TRUE, .has_obsolete = TRUE,
    .line = "keep - - all removes-obsolete" },
  { "reference removed, only the report is left", .reported_reason = "InvalidSpec", .line = "keep -! - all" },
  { "invalid reference", .error = REFERENCE_BAD, .template = DELIVERY_TEMPLATE_OTHER, .n_held_claims = 1,
    .line = "hold InvalidModelReference! InvalidModelReference unbound finalizer", .message = "bad reference" },
  { "invalid reference, told before", .error = REFERENCE_BAD, .template = DELIVERY_TEMPLATE_HELD,
    .reported_reason = "InvalidModelReference", .reported_message = "bad reference",
    .line = "keep InvalidModelReference - unbound finalizer", .message = "bad reference" },
  { "invalid reference, another than before", .error = REFERENCE_BAD, .template = DELIVERY_TEMPLATE_HELD,
    .reported_reason = "InvalidModelReference", .reported_message = "other", .no_finalizer = TRUE,
    .line = "keep InvalidModelReference! InvalidModelReference unbound", .message = "bad reference" },
  { "in the module's namespace", HELD, .claim = &absent, .is_in_module_namespace = TRUE, .no_finalizer = TRUE,
    .line = "keep - - none" },
  { "in the module's namespace, with a finalizer", HELD, .is_deleting = TRUE, .is_in_module_namespace = TRUE,
    .line = "keep - - none finalizer" },

  /* deletion */
  { "deleted", SERVED, .is_current = TRUE, .is_deleting = TRUE, .n_held_claims = 1,
    .line = "keep - - all finalizer" },
  { "deleted, all released", SERVED, .is_current = TRUE, .is_deleting = TRUE, .line = "keep - - all" },
  { "deleted, not ours", HELD, .is_deleting = TRUE, .no_finalizer = TRUE, .n_held_claims = 1,
    .line = "keep - - all" },
  { "deleted with an invalid reference", .error = REFERENCE_BAD, .is_deleting = TRUE, .line = "keep - - all" },

  /* models */
  { "model missing", HELD, .model = MISSING,
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer",
    .message = "Model a does not exist" },
  { "model missing, told before", HELD, .model = MISSING, .reported_reason = "ModelDeliveryPending",
    .reported_message = "Model a does not exist", .line = "keep ModelDeliveryPending - unbound finalizer",
    .message = "Model a does not exist" },
  { "model publishing", HELD, .model = PUBLISHING, .reported_reason = "ModelDeliveryPending",
    .reported_message = "Model a does not exist",
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer",
    .message = "Model a is not Ready (Publishing)" },
  { "model just made", HELD, .model = PHASELESS,
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer", .message = "(no phase yet)" },
  { "model missing, two asked for", .n_models = 2, .template = DELIVERY_TEMPLATE_HELD, .model = MISSING,
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer",
    .message = "Model a does not exist" },
  { "model missing, Pods run", SERVED, .model = MISSING,
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer", .message = "Model a" },
  { "model missing, no gate yet", .n_models = 1, .model = MISSING,
    .line = "hold ModelDeliveryPending! ModelDeliveryPending unbound finalizer", .message = "Model a" },
  { "model missing, delivered for other references", .n_models = 1, .model = MISSING,
    .template = DELIVERY_TEMPLATE_OTHER, .line = "hold ModelDeliveryPending! ModelDeliveryPending unbound finalizer",
    .message = "Model a" },
  { "model missing before the template is looked at", HELD, .model = MISSING, .error = SPEC_BAD,
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer", .message = "Model a" },

  /* template */
  { "mounts in the way", HELD, .error = SPEC_BAD, .line = "keep InvalidSpec! ModelDeliveryBlocked! unbound finalizer",
    .message = "bad spec" },
  { "mounts in the way, told before", HELD, .error = SPEC_BAD, .reported_reason = "InvalidSpec",
    .reported_message = "bad spec", .line = "keep InvalidSpec - unbound finalizer", .message = "bad spec" },
  { "mounts in the way before the volumes are looked at", HELD, .claim = &absent, .class = CLASS_NONE,
    .error = SPEC_BAD, .line = "keep InvalidSpec! ModelDeliveryBlocked! unbound finalizer", .message = "bad spec" },
  { "mounts in the way, no gate", .n_models = 1, .error = SPEC_BAD, .template = DELIVERY_TEMPLATE_OTHER,
    .line = "hold InvalidSpec! ModelDeliveryBlocked! unbound finalizer", .message = "bad spec" },
  { "node cache", HELD, .error = SPEC_NODE_CACHE,
    .line = "keep NodeCacheDeliveryDisabled! ModelDeliveryPending unbound finalizer", .message = "node cache" },

  /* volumes */
  { "no finalizer yet", HELD, .claim = &absent, .no_finalizer = TRUE,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "claim c-a" },
  { "no gate yet", .n_models = 1, .claim = &absent,
    .line = "hold SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "claim c-a" },
  { "no claim", HELD, .claim = &absent,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "claim c-a",
    .steps = "create" },
  { "no class", HELD, .claim = &absent, .class = CLASS_NONE,
    .line = "keep SharedPVCStorageClassMissing! ModelDeliveryBlocked! stale finalizer 15s", .message = "no Storage",
    .steps = "-" },
  { "class missing", HELD, .claim = &absent, .class = CLASS_UNKNOWN,
    .line = "keep SharedPVCStorageClassMissing! ModelDeliveryBlocked! stale finalizer 15s",
    .message = "StorageClass gone", .steps = "-" },
  { "two defaults", HELD, .claim = &absent, .class = CLASS_TWO,
    .line = "keep SharedPVCStorageClassAmbiguous! ModelDeliveryBlocked! stale finalizer 15s", .message = "several",
    .steps = "-" },
  { "class defers", HELD, .claim = &absent, .class = CLASS_DEFERS,
    .line = "keep SharedPVCStorageClassDefersBinding! ModelDeliveryBlocked! stale finalizer 15s",
    .message = "WaitForFirstConsumer", .steps = "-" },
  { "claim pending", HELD, .claim = &pending,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "waits for a volume",
    .steps = "-" },
  { "claim pending, other words than before are no event", HELD, .claim = &pending,
    .reported_reason = "SharedPVCClaimPending", .reported_message = "x",
    .line = "keep SharedPVCClaimPending! - stale finalizer 15s", .message = "waits for a volume", .steps = "-" },
  { "refused", HELD, .claim = &refused, .reported_reason = "SharedPVCClaimPending", .reported_message = "x",
    .line = "keep SharedPVCProvisioningFailed! ModelDeliveryBlocked! stale finalizer 15s", .message = "no quota",
    .steps = "-" },
  { "refused as before", HELD, .claim = &refused, .reported_reason = "SharedPVCProvisioningFailed",
    .reported_message = "no quota", .line = "keep SharedPVCProvisioningFailed - stale finalizer 15s",
    .message = "no quota", .steps = "-" },
  { "refused in other words", HELD, .claim = &refused, .reported_reason = "SharedPVCProvisioningFailed",
    .reported_message = "no disk",
    .line = "keep SharedPVCProvisioningFailed! ModelDeliveryBlocked! stale finalizer 15s", .message = "no quota",
    .steps = "-" },
  { "provisioner silent", HELD, .claim = &silent,
    .line = "keep SharedPVCProvisioningTimedOut! ModelDeliveryBlocked! stale finalizer 15s", .message = "10 minutes",
    .steps = "-" },
  { "claim lost", HELD, .claim = &lost, .line = "keep SharedPVCClaimLost! ModelDeliveryBlocked! stale finalizer 15s",
    .message = "lost", .steps = "-" },
  { "claim lost under Pods", SERVED, .claim = &lost, .is_current = TRUE,
    .line = "keep SharedPVCClaimLost! ModelDeliveryBlocked! stale finalizer 15s", .message = "lost", .steps = "-" },
  { "claim of somebody else", HELD, .claim = &foreign,
    .line = "keep InvalidSpec! ModelDeliveryBlocked! stale finalizer 15s", .message = "not made by this module",
    .steps = "-" },
  { "bound", HELD, .claim = &bound,
    .line = "keep SharedPVCMaterializerPending! ModelDeliveryPending stale finalizer 15s",
    .message = "about to be copied", .steps = "start" },
  { "queued", HELD, .claim = &queued,
    .line = "keep SharedPVCMaterializerPending! ModelDeliveryPending stale finalizer 15s", .message = "its turn",
    .steps = "-" },
  { "copied", HELD, .claim = &copied, .reported_reason = "SharedPVCMaterializerPending", .reported_message = "x",
    .line = "keep SharedPVCMaterializerPending! - stale finalizer 15s", .message = "being copied", .steps = "-" },
  { "copy failed", HELD, .claim = &failed,
    .line = "keep SharedPVCMaterializerFailed! ModelDeliveryPending stale finalizer 15s", .message = "volume full",
    .steps = "-" },
  { "two claims: both go on, the first is told of", .n_models = 2, .template = DELIVERY_TEMPLATE_HELD,
    .claim = &bound, .second = &absent,
    .line = "keep SharedPVCMaterializerPending! ModelDeliveryPending stale finalizer 15s", .message = "model a",
    .steps = "start create" },
  { "two claims: the one that failed is told of", .n_models = 2, .template = DELIVERY_TEMPLATE_HELD, .claim = &copied,
    .second = &failed, .line = "keep SharedPVCMaterializerFailed! ModelDeliveryPending stale finalizer 15s",
    .message = "volume full", .steps = "- -" },
  { "two claims: the one that is blocked is told of", .n_models = 2, .template = DELIVERY_TEMPLATE_HELD,
    .claim = &failed, .second = &refused,
    .line = "keep SharedPVCProvisioningFailed! ModelDeliveryBlocked! stale finalizer 15s", .message = "no quota",
    .steps = "- -" },
  { "one of two is there", .n_models = 2, .template = DELIVERY_TEMPLATE_HELD, .second = &pending,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "waits",
    .steps = "- -" },
  { "published anew, Pods run with what was before", SERVED, .claim = &absent,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "claim c-a",
    .steps = "create" },
  { "claim gone under its Pods", .n_models = 1, .template = DELIVERY_TEMPLATE_OTHER, .claim = &absent,
    .has_open_pods = TRUE, .line = "hold SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s",
    .message = "claim c-a" },
  { "claim gone, Pods without a gate wait for it", HELD, .claim = &absent, .has_open_pods = TRUE,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s removes-open",
    .message = "claim c-a" },
  { "published as once before, Pods without a gate still wait for that claim", SERVED, .claim = &absent,
    .has_open_pods = TRUE,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s removes-open",
    .message = "claim c-a" },
  { "claim being deleted under Pods that run", SERVED, .claim = &going, .is_current = TRUE,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s", .message = "is being deleted",
    .steps = "-" },

  /* delivered */
  { "all is there", HELD, .reported_reason = "SharedPVCMaterializerPending", .reported_message = "x",
    .line = "deliver -! ModelDeliveryApplied unwanted finalizer",
    .message = "1 model delivered, the first one " DIGEST, .steps = "-" },
  { "all is there, another's claim", HELD, .claim = &whole_of_another,
    .line = "deliver - ModelDeliveryApplied unwanted finalizer", .message = "1 model", .steps = "hold" },
  { "all is there, no finalizer yet", HELD, .claim = &whole_of_another, .no_finalizer = TRUE,
    .reported_reason = "SharedPVCMaterializerPending", .line = "keep - - none finalizer" },
  { "published anew, and all is there", SERVED, .line = "deliver - ModelDeliveryApplied unwanted finalizer",
    .message = "1 model", .steps = "-" },
  { "two models are there", .n_models = 2, .template = DELIVERY_TEMPLATE_HELD,
    .line = "deliver - ModelDeliveryApplied unwanted finalizer", .message = "2 models delivered", .steps = "- -" },
  { "forged state, and all is there", .n_models = 1, .template = DELIVERY_TEMPLATE_OTHER,
    .line = "deliver - ModelDeliveryApplied unwanted finalizer", .message = "1 model", .steps = "-" },
  { "delivered", SERVED, .is_current = TRUE, .line = "keep - - unwanted finalizer", .steps = "-" },
  { "delivered, the class is gone", SERVED, .is_current = TRUE, .class = CLASS_NONE,
    .line = "keep - - unwanted finalizer", .steps = "-" },
  { "delivered, gated sets are left", SERVED, .is_current = TRUE, .has_obsolete = TRUE,
    .line = "keep - - unwanted finalizer removes-obsolete", .steps = "-" },
  { "delivered, gated sets are left, and the model goes", SERVED, .model = MISSING, .has_obsolete = TRUE,
    .line = "keep ModelDeliveryPending! ModelDeliveryPending unbound finalizer removes-obsolete",
    .message = "Model a" },
  { "delivered, gated sets are left, and the model is published anew", SERVED, .claim = &absent, .has_obsolete = TRUE,
    .line = "keep SharedPVCClaimPending! ModelDeliveryPending stale finalizer 15s removes-obsolete",
    .message = "claim c-a", .steps = "create" },
  { "gated sets stay until it is delivered", HELD, .has_obsolete = TRUE,
    .line = "deliver - ModelDeliveryApplied unwanted finalizer", .message = "1 model", .steps = "-" },
  { "delivered, Pods of before wait for a claim that is gone", SERVED, .is_current = TRUE, .has_open_pods = TRUE,
    .line = "keep - - unwanted finalizer removes-open" },
  { "no reference any more, Pods of before wait for a claim that is gone", .has_open_pods = TRUE,
    .line = "keep - - all removes-open" },
  { "delivered, the report is left", SERVED, .is_current = TRUE, .reported_reason = "InvalidSpec",
    .line = "keep -! - unwanted finalizer", .steps = "-" },
  { "delivered at admission", SERVED, .is_current = TRUE, .no_finalizer = TRUE, .claim = &whole_of_another,
    .line = "keep - ModelDeliveryApplied unwanted finalizer", .message = "1 model" },
};

static void
show_steps (const ClaimStep *steps, gsize n, GString *line)
{
  static const char *const names[] = {
    [CLAIM_STEP_NONE] = "-",        [CLAIM_STEP_CREATE] = "create",   [CLAIM_STEP_HOLD] = "hold",
    [CLAIM_STEP_REMOVE] = "remove", [CLAIM_STEP_START_JOB] = "start", [CLAIM_STEP_REMOVE_JOB] = "remove-job",
    [CLAIM_STEP_MARK] = "mark",
  };
  for (gsize i = 0; i < n; i++)
    g_string_append_printf (line, "%s%s", i > 0 ? " " : "", names[steps[i]]);
}

/* Form, reason ('!': the report changes), event ('!': a warning), release, and what else there is. */
static char *
shown (const DeliveryDecision *got)
{
  static const char *const forms[] = { "keep", "hold", "deliver", "clear" };
  static const char *const releases[] = { "none", "stale", "unbound", "unwanted", "all" };
  const char *reason = delivery_reason_name (got->reason), *event = delivery_event_name (got->event);
  GString *line = g_string_new (forms[got->form]);
  g_string_append_printf (line, " %s%s", reason != NULL ? reason : "-", got->changes_report ? "!" : "");
  gboolean is_loud = delivery_event_is_warning (got->event) && got->event != DELIVERY_EVENT_INVALID;
  g_string_append_printf (line, " %s%s %s", event != NULL ? event : "-", is_loud ? "!" : "", releases[got->release]);
  g_string_append_printf (line, "%s", got->wants_finalizer ? " finalizer" : "");
  if (got->recheck_s > 0)
    g_string_append_printf (line, " %us", got->recheck_s);
  g_string_append_printf (line, "%s%s", got->removes_open_pods ? " removes-open" : "",
                          got->removes_obsolete ? " removes-obsolete" : "");
  return g_string_free (line, FALSE);
}

static const StorageClassChoice choices[] = {
  [CLASS_FINE] = { STORAGE_CLASS_FINE, "fast" },       [CLASS_NONE] = { STORAGE_CLASS_NONE, NULL },
  [CLASS_UNKNOWN] = { STORAGE_CLASS_UNKNOWN, "gone" }, [CLASS_TWO] = { STORAGE_CLASS_AMBIGUOUS, NULL },
  [CLASS_DEFERS] = { STORAGE_CLASS_DEFERS, "late" },
};

static GError *
error_of (ErrorSeen seen)
{
  static const char *const reasons[][2] = {
    [SPEC_BAD] = { "InvalidSpec", "bad spec" },
    [SPEC_NODE_CACHE] = { "NodeCacheDeliveryDisabled", "node cache" },
    [REFERENCE_BAD] = { "InvalidModelReference", "bad reference" },
  };
  GError *error = NULL;
  if (seen != SPEC_GOOD)
    am_fail (&error, AM_ERROR_FAILED_PRECONDITION, reasons[seen][0], "%s", reasons[seen][1]);
  return error;
}

static void
decide_row (const Row *row, DeliveryDecision *out)
{
  g_autoptr (GError) error = error_of (row->error);
  const DeliveryModelView models[] = {
    { FALSE, "a", row->model != MISSING, row->model == GOOD, row->model == PUBLISHING ? "Publishing" : NULL, DIGEST,
      row->claim != NULL ? *row->claim : whole },
    { TRUE, "b", TRUE, TRUE, "Ready", DIGEST, row->second != NULL ? *row->second : whole },
  };
  DeliveryView seen = {
    .is_in_module_namespace = row->is_in_module_namespace,
    .is_deleting = row->is_deleting,
    .has_finalizer = !row->no_finalizer,
    .reference_error = row->error == REFERENCE_BAD ? error : NULL,
    .models = models,
    .n_models = row->n_models,
    .spec_error = row->error != REFERENCE_BAD ? error : NULL,
    .template = row->template,
    .is_current = row->is_current,
    .choice = choices[row->class],
    .n_held_claims = row->n_held_claims,
    .has_open_pods = row->has_open_pods,
    .has_obsolete = row->has_obsolete,
    .is_observed = !row->is_unobserved,
    .reported_reason = row->reported_reason,
    .reported_message = row->reported_message,
  };
  delivery_decide (&seen, out);
}

static void
test_rows (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (DeliveryDecision) got = { 0 };
      g_autoptr (GString) steps = g_string_new (NULL);
      decide_row (&rows[i], &got);
      g_autofree char *line = shown (&got);
      g_test_message ("%s: %s", rows[i].what, got.message != NULL ? got.message : "-");
      g_assert_cmpstr (line, ==, rows[i].line);
      g_assert_true (rows[i].message == NULL ? got.message == NULL : strstr (got.message, rows[i].message) != NULL);
      if (got.claim_steps != NULL)
        show_steps (got.claim_steps, rows[i].n_models, steps);
      g_assert_cmpstr (got.claim_steps != NULL ? steps->str : NULL, ==, rows[i].steps);
    }
}

/* Every reason that there is has a row. */
static void
test_reasons (void)
{
  gboolean is_told[DELIVERY_N_REASONS] = { FALSE };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (DeliveryDecision) got = { 0 };
      decide_row (&rows[i], &got);
      is_told[got.reason] = TRUE;
    }
  for (guint i = 0; i < DELIVERY_N_REASONS; i++)
    g_assert_true (is_told[i]);
}

/* A provisioner may say much, and any bytes. */
static void
test_long_message (void)
{
  static const char *const cells[] = { "x", "\xc3\xb6", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff" };
  for (gsize i = 0; i < G_N_ELEMENTS (cells); i++)
    {
      g_autoptr (GString) text = g_string_new ("y");
      while (text->len < 2000)
        g_string_append (text, cells[i]);
      ClaimView claim = refused;
      claim.refusal = text->str;
      g_auto (DeliveryDecision) got = { 0 };
      decide_row (&(Row){ .what = "long", HELD, .claim = &claim }, &got);
      g_assert_true (g_utf8_validate (got.message, -1, NULL));
      g_assert_cmpuint (strlen (got.message), <=, 512);
      g_assert_cmpuint (strlen (got.message), >, 508);
      g_auto (DeliveryDecision) again = { 0 };
      decide_row (&(Row){ .what = "again",
                          HELD,
                          .claim = &claim,
                          .reported_reason = "SharedPVCProvisioningFailed",
                          .reported_message = got.message },
                  &again);
      g_assert_false (again.changes_report);
    }
}

static void
test_releases (void)
{
  static const struct {
    DeliveryRelease release;
    const char *released; /* wanted and bound, wanted, bound, neither */
  } cases[] = {
    { DELIVERY_RELEASE_NONE, "----" },     { DELIVERY_RELEASE_STALE, "---x" }, { DELIVERY_RELEASE_UNBOUND, "-x-x" },
    { DELIVERY_RELEASE_UNWANTED, "--xx" }, { DELIVERY_RELEASE_ALL, "xxxx" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint k = 0; k < 4; k++)
      g_assert_cmpint (delivery_releases (cases[i].release, k < 2, k % 2 == 0), ==, cases[i].released[k] == 'x');
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery-step/rows", test_rows);
  g_test_add_func ("/delivery-step/reasons", test_reasons);
  g_test_add_func ("/delivery-step/long-message", test_long_message);
  g_test_add_func ("/delivery-step/releases", test_releases);
  return g_test_run ();
}
