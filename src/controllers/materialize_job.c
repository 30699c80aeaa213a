#include "controllers/materialize_job.h"

#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "cluster/module_objects.h"
#include "controllers/object_draft.h"
#include "domain/delivery_names.h"

#define PURPOSE "shared-pvc"
#define GRACE_S 30
#define RETRIES 6
#define KEPT_S 300
#define VOLUME_DIR "/volume"
#define GRANT_DIR "/etc/ai-models/grant"
#define CLAIM_UID_ANNOTATION MODEL_ANNOTATION "claim-uid"
#define GRANT_ANNOTATION MODEL_ANNOTATION "grant-id"
#define MADE_ANNOTATION MODEL_ANNOTATION "made-at"
#define SIGNATURE_ANNOTATION MODEL_ANNOTATION "job-signature"
#define SIGNATURE_PREFIX "hmac-"
#define SIGNED_AS \
  "materializer" /* the key signs what Pod templates say, too: that begins with "NAMESPACE\0ai.deckhouse.io/" */

static char *
name_of (const char *prefix, const char *claim_name)
{
  const char *hash = g_str_has_prefix (claim_name, DELIVERY_CLAIM_PREFIX)
                       ? claim_name + strlen (DELIVERY_CLAIM_PREFIX)
                       : claim_name;
  return g_strconcat (prefix, hash, NULL);
}

char *
materialize_job_name (const char *claim_name)
{
  return name_of (DELIVERY_JOB_PREFIX, claim_name);
}

char *
materialize_grant_name (const char *claim_name)
{
  return name_of (DELIVERY_GRANT_PREFIX, claim_name);
}

char *
materialize_pull_name (const char *claim_name)
{
  return name_of (DELIVERY_PULL_PREFIX, claim_name);
}

static void
add_labels (const ObjectDraft *draft, yyjson_mut_val *metadata, const ClaimSubject *subject, const KubeObject *claim)
{
  yyjson_mut_val *labels = metadata_map (draft->doc, metadata, "labels");
  claim_labels (draft->doc, metadata, MATERIALIZER_APP, subject);
  draft_text (draft, labels, CLAIM_NAME_LABEL, kube_object_name (claim));
}

/* What goes with its claim. */
static ObjectDraft
draft_new (const char *name, const ClaimSubject *subject, const KubeObject *claim)
{
  ObjectDraft draft = object_draft_new (name);
  add_labels (&draft, draft.metadata, subject, claim);
  draft_owner (&draft, "v1", "PersistentVolumeClaim", kube_object_name (claim), kube_object_uid (claim));
  return draft;
}

/* What of a Job makes it ours. */
typedef struct {
  const char *namespace, *job, *claim, *claim_uid, *grant_id, *made;
} Seal;

/* Caller frees. */
static char *
seal_sign (const Seal *self, const guint8 *key)
{
  const char *const words[] = { SIGNED_AS,       self->namespace, self->job, self->claim,
                                self->claim_uid, self->grant_id,  self->made };
  g_autoptr (GString) message = g_string_new (NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    g_string_append_len (message, words[i], (gssize) strlen (words[i]) + 1); /* with its NUL */
  g_autofree char *hex = g_compute_hmac_for_data (G_CHECKSUM_SHA256, key, DELIVERY_KEY_SIZE,
                                                  (const guchar *) message->str, message->len);
  return g_strconcat (SIGNATURE_PREFIX "sha256:", hex, NULL);
}

static gboolean
is_signature (const char *expected, const char *text)
{
  Digest ours, theirs;
  return text != NULL && g_str_has_prefix (text, SIGNATURE_PREFIX)
         && digest_parse (text + strlen (SIGNATURE_PREFIX), &theirs, NULL)
         && digest_parse (expected + strlen (SIGNATURE_PREFIX), &ours, NULL) && digest_equal_secret (&ours, &theirs);
}

gboolean
materialize_job_is_ours (const ControllerSettings *settings, const KubeObject *job)
{
  const Seal seal = {
    .namespace = kube_object_namespace (job),
    .job = kube_object_name (job),
    .claim = materialize_job_claim (job),
    .claim_uid = materialize_job_claim_uid (job),
    .grant_id = materialize_job_grant (job),
    .made = kube_object_annotation (job, MADE_ANNOTATION),
  };
  if (seal.claim == NULL || seal.claim_uid == NULL || seal.grant_id == NULL || seal.made == NULL)
    return FALSE;
  gint64 made_s = time_text_parse (seal.made), created_s = kube_object_created_s (job);
  g_autofree char *expected = seal_sign (&seal, settings->delivery.state_key);
  return ABS (created_s - made_s) <= MATERIALIZE_MAKING_S
         && is_signature (expected, kube_object_annotation (job, SIGNATURE_ANNOTATION));
}

static void
add_seal (const ObjectDraft *draft, const ControllerSettings *settings, const Seal *seal)
{
  yyjson_mut_val *annotations = metadata_map (draft->doc, draft->metadata, "annotations");
  g_autofree char *signature = seal_sign (seal, settings->delivery.state_key);
  draft_text (draft, annotations, CLAIM_UID_ANNOTATION, seal->claim_uid);
  draft_text (draft, annotations, GRANT_ANNOTATION, seal->grant_id);
  draft_text (draft, annotations, MADE_ANNOTATION, seal->made);
  draft_text (draft, annotations, SIGNATURE_ANNOTATION, signature);
}

static void
add_arguments (const ObjectDraft *draft, yyjson_mut_val *container, const ControllerSettings *settings,
               const ClaimSubject *subject)
{
  yyjson_mut_val *args = yyjson_mut_obj_add_arr (draft->doc, container, "args");
  g_autofree char *artifact = g_strdup_printf ("%s@%s", subject->repository, subject->digest);
  draft_word (draft, args, "materialize");
  draft_option (draft, args, "--registry", settings->registry);
  draft_option (draft, args, "--registry-ca-file", settings->registry_ca_file != NULL ? GRANT_DIR "/ca.crt" : NULL);
  if (settings->registry_plain_http)
    draft_word (draft, args, "--registry-plain-http");
  draft_option (draft, args, "--artifact", artifact);
  draft_option (draft, args, "--grant-file", GRANT_DIR "/token");
  draft_option (draft, args, "--volume", VOLUME_DIR);
  draft_option_u64 (draft, args, "--expected-bytes", subject->size_bytes);
  draft_option (draft, args, "--log-format", "json");
}

static void
add_pod (const ObjectDraft *draft, yyjson_mut_val *spec, const ControllerSettings *settings,
         const ClaimSubject *subject, const KubeObject *claim)
{
  const DeliverySettings *delivery = &settings->delivery;
  g_autofree char *grant = materialize_grant_name (kube_object_name (claim));
  g_autofree char *pull = delivery->materializer_pull_secret != NULL
                            ? materialize_pull_name (kube_object_name (claim))
                            : NULL;
  yyjson_mut_val *container = draft_container (draft, spec, "materialize", delivery->materializer_image);
  draft_text (draft, spec, "restartPolicy", "Never");
  yyjson_mut_obj_add_bool (draft->doc, spec, "automountServiceAccountToken", FALSE);
  yyjson_mut_obj_add_int (draft->doc, spec, "terminationGracePeriodSeconds", GRACE_S);
  draft_pull_secret (draft, spec, pull);
  add_arguments (draft, container, settings, subject);
  draft_resources (draft, container, delivery->materializer_requests, delivery->materializer_limits);
  DraftVolumes volumes = draft_volumes (draft, spec, container);
  draft_volume (&volumes, "model", DRAFT_CLAIM, kube_object_name (claim), VOLUME_DIR);
  draft_volume (&volumes, "grant", DRAFT_SECRET, grant, GRANT_DIR);
}

yyjson_mut_doc *
materialize_job_document (const ControllerSettings *settings, const ClaimSubject *subject, const KubeObject *claim,
                          const char *grant_id, gint64 now_s)
{
  g_autofree char *name = materialize_job_name (kube_object_name (claim)), *made = time_text (now_s);
  g_autofree char *bytes = g_strdup_printf ("%" G_GUINT64_FORMAT, subject->size_bytes);
  const Seal seal = { subject->namespace, name, kube_object_name (claim), kube_object_uid (claim), grant_id, made };
  ObjectDraft draft = draft_new (name, subject, claim);
  draft_text (&draft, metadata_map (draft.doc, draft.metadata, "annotations"), EXPECTED_BYTES_ANNOTATION, bytes);
  add_seal (&draft, settings, &seal);
  yyjson_mut_val *spec = draft_object (&draft, draft.root, "spec");
  yyjson_mut_obj_add_int (draft.doc, spec, "backoffLimit", RETRIES);
  yyjson_mut_obj_add_int (draft.doc, spec, "activeDeadlineSeconds", MATERIALIZE_DEADLINE_S);
  yyjson_mut_obj_add_int (draft.doc, spec, "ttlSecondsAfterFinished", KEPT_S);
  yyjson_mut_val *template = draft_object (&draft, spec, "template");
  yyjson_mut_val *metadata = draft_object (&draft, template, "metadata");
  add_labels (&draft, metadata, subject, claim);
  /* A proxy beside it would not end with it. */
  draft_text (&draft, metadata_map (draft.doc, metadata, "labels"), "sidecar.istio.io/inject", "false");
  add_pod (&draft, draft_object (&draft, template, "spec"), settings, subject, claim);
  return draft.doc;
}

yyjson_mut_doc *
materialize_grant_document (const ControllerSettings *settings, const ClaimSubject *subject, const KubeObject *claim,
                            const char *grant_id, const char *registry_ca, gint64 now_s)
{
  g_autofree char *name = materialize_grant_name (kube_object_name (claim));
  g_autofree char *job = materialize_job_name (kube_object_name (claim));
  const ReadGrant grant = {
    .id = (char *) grant_id,
    .purpose = (char *) PURPOSE,
    .repository = (char *) subject->repository,
    .digest = (char *) subject->digest,
    .namespace = (char *) subject->namespace,
    .name = job,
    .expected_bytes = subject->size_bytes,
    .issued_s = now_s,
    .expires_s = now_s + MATERIALIZE_DEADLINE_S,
  };
  g_autofree char *token = read_grant_sign (&grant, settings->delivery.grant_key);
  ObjectDraft draft = draft_new (name, subject, claim);
  draft_data (&draft, "token", token);
  draft_data (&draft, "ca.crt", registry_ca);
  return draft.doc;
}

yyjson_mut_doc *
materialize_pull_document (const ClaimSubject *subject, const KubeObject *claim, const KubeObject *module_secret)
{
  g_autofree char *name = materialize_pull_name (kube_object_name (claim));
  ObjectDraft draft = draft_new (name, subject, claim);
  yyjson_val *data = json_get_object (kube_object_root (module_secret), "data");
  draft_text (&draft, draft.root, "type", json_get_string (kube_object_root (module_secret), "type"));
  if (data != NULL)
    yyjson_mut_obj_add_val (draft.doc, draft.root, "data", yyjson_val_mut_copy (draft.doc, data));
  return draft.doc;
}

const char *
materialize_job_claim (const KubeObject *job)
{
  return kube_object_label (job, CLAIM_NAME_LABEL);
}

const char *
materialize_job_claim_uid (const KubeObject *job)
{
  return kube_object_annotation (job, CLAIM_UID_ANNOTATION);
}

const char *
materialize_job_grant (const KubeObject *job)
{
  return kube_object_annotation (job, GRANT_ANNOTATION);
}

guint64
materialize_job_bytes (const KubeObject *job)
{
  guint64 bytes = 0;
  const char *text = kube_object_annotation (job, EXPECTED_BYTES_ANNOTATION);
  return text != NULL && text_parse_u64 (text, &bytes) ? bytes : 0;
}
