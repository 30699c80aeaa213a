/* Who a bearer token belongs to and what he may do, asked of the API server (TokenReview, SubjectAccessReview) and
 * remembered for seconds. Used by the HTTP APIs in place of a proxy. Thread-safe. */
#pragma once

#include "kube/kube_client.h"

typedef struct AccessReview AccessReview;

AccessReview *access_review_new (KubeClient *client);
void access_review_free (AccessReview *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (AccessReview, access_review_free)

typedef struct {
  char *user, *uid; /* uid "" when there is none */
  char **groups;    /* NULL-terminated */
} KubeIdentity;

void kube_identity_clear (KubeIdentity *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (KubeIdentity, kube_identity_clear)

/* UNAUTHENTICATED when the token is not good; else errors of the client, which mean "not known". A good answer is
 * remembered for ten seconds, under a hash of the token. */
gboolean access_review_identify (Ctx *ctx, AccessReview *self, const char *token, KubeIdentity *out_identity,
                                 GError **error);

typedef struct {
  const char *verb;
  const char *group, *resource, *subresource; /* subresource may be NULL */
  const char *namespace, *name;               /* or NULL: any */
} AccessQuestion;

/* PERMISSION_DENIED (reason Forbidden) when he may not, naming who may not what; else errors of the client. An answer is
 * remembered for ten seconds when it is yes and for five when it is no. */
gboolean access_review_require (Ctx *ctx, AccessReview *self, const KubeIdentity *identity,
                                const AccessQuestion *question, GError **error);
