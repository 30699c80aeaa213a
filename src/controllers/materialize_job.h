/* The Job that copies one model to its claim, and the Secrets that it needs, as documents to create: delivery-sharedpvc.md,
 * "Materializer Job". The Secrets are made before the Job and belong to the claim, so that none can outlive it. Pure. Used by
 * claim_work.c and the collector of claims. */
#pragma once

#include "controllers/claim_document.h"
#include "controllers/controller_settings.h"

#define MATERIALIZER_APP "ai-models-materializer" /* app.kubernetes.io/name of Jobs and their Pods */
#define EXPECTED_BYTES_ANNOTATION "ai.deckhouse.io/expected-bytes"

#define MATERIALIZE_DEADLINE_S (24 * 3600) /* of a Job, and of its grant */
#define MATERIALIZE_MAKING_S (30 * 60)     /* from a Job's document to the Job; clocks may differ */

/* Names of what belongs to the claim of that name; the caller frees them. */
char *materialize_job_name (const char *claim_name);
char *materialize_grant_name (const char *claim_name);
char *materialize_pull_name (const char *claim_name);

/* The caller frees documents. `grant_id` is that of the grant. The Job is signed, as made at `now_s`. */
yyjson_mut_doc *materialize_job_document (const ControllerSettings *settings, const ClaimSubject *subject,
                                          const KubeObject *claim, const char *grant_id, gint64 now_s);
/* Whether we made this Job: anybody who may write Jobs in a namespace may write one that looks like ours, and would take a turn
 * from all others. Not when it was made anew by what it says, later than MATERIALIZE_MAKING_S after we made it. */
gboolean materialize_job_is_ours (const ControllerSettings *settings, const KubeObject *job);
/* A grant for just this, from `now_s`; and who vouches for the registry, NULL: nobody has to. It is a secret. */
yyjson_mut_doc *materialize_grant_document (const ControllerSettings *settings, const ClaimSubject *subject,
                                            const KubeObject *claim, const char *grant_id, const char *registry_ca,
                                            gint64 now_s);
/* A copy of the Secret with which the module's image is pulled. */
yyjson_mut_doc *materialize_pull_document (const ClaimSubject *subject, const KubeObject *claim,
                                           const KubeObject *module_secret);

/* What a Job says of itself, borrowed; NULL: nothing. Anybody who may write Jobs in its namespace may write that too. */
const char *materialize_job_claim (const KubeObject *job);     /* name */
const char *materialize_job_claim_uid (const KubeObject *job); /* the claim of that name for which it was made */
const char *materialize_job_grant (const KubeObject *job);     /* id */
guint64 materialize_job_bytes (const KubeObject *job);         /* 0: it does not say */
