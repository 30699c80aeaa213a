/* The claim that holds one model in one namespace, as documents to create it and to change it: delivery-sharedpvc.md, "Claim
 * design". Pure. Used by claim_work.c and the collector of claims. Every patch names the version that it was made from: of two
 * that change the same claim at once, one looks again. */
#pragma once

#include "domain/delivery_claim.h"
#include "kube/kube_kind.h"
#include "kube/kube_object.h"

#define SHARED_CLAIM_LABEL "ai.deckhouse.io/shared-pvc" /* "true": a claim that holds a model */
#define CLAIM_NAME_LABEL "ai.deckhouse.io/claim-name"   /* of a Job, its Pods and Secrets */
#define ARTIFACT_DIGEST_LABEL "ai.deckhouse.io/artifact-digest"
#define MATERIALIZED_ANNOTATION "ai.deckhouse.io/materialized-digest"
#define RELEASED_ANNOTATION "ai.deckhouse.io/released-at" /* RFC 3339: since when nobody holds it */

/* One model in one namespace. Texts are borrowed. */
typedef struct {
  const char *namespace;
  gboolean is_cluster_wide;
  const char *model, *digest;
  const char *repository; /* of the module's registry; for Jobs alone */
  guint64 size_bytes;     /* of its files */
} ClaimSubject;

/* "ai-models-cache-..."; caller frees. */
char *claim_name (const ClaimSubject *subject);
/* What a claim says that it holds, borrowed from it; FALSE when it says nothing of the kind, or its name does not fit. Anybody
 * who may write claims in its namespace may write that too. */
gboolean claim_subject_read (const KubeObject *claim, ClaimSubject *out_subject);
/* Labels that lead to a claim from what there is for its sake. */
void claim_labels (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const char *app, const ClaimSubject *subject);

/* The caller frees documents. */
yyjson_mut_doc *claim_document (const ClaimSubject *subject, const KubeKind *holder_kind, const KubeObject *holder,
                                const char *storage_class);

/* CLAIM_BOUND, CLAIM_LOST, or CLAIM_PENDING: one that was never bound. */
ClaimPhase claim_phase (const KubeObject *claim);
gboolean claim_is_held_by (const KubeObject *claim, const char *uid);
guint claim_n_holders (const KubeObject *claim);
gint64 claim_released_s (const KubeObject *claim); /* Unix time; 0: it is not written, or is no time */

/* With one holder more. */
yyjson_mut_doc *claim_hold_patch (const KubeObject *claim, const KubeKind *holder_kind, const KubeObject *holder);
/* With one holder less; when it was the last one, released at `now_s`. */
yyjson_mut_doc *claim_leave_patch (const KubeObject *claim, const char *holder_uid, gint64 now_s);
/* Writes RELEASED_ANNOTATION; `released_s` 0: takes it away. */
yyjson_mut_doc *claim_released_patch (const KubeObject *claim, gint64 released_s);
/* Writes MATERIALIZED_ANNOTATION. */
yyjson_mut_doc *claim_mark_patch (const KubeObject *claim, const char *digest);
