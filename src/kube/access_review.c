#include "kube/access_review.h"

#include <string.h>

#include "base/digest.h"
#include "base/recent.h"

#define YES_AGE_MS 10000
#define NO_AGE_MS 5000
#define CACHE_BYTES (1u << 20)
#define MAX_TOKEN_BYTES (16u * 1024)
#define MAX_GROUPS 1000u

static const KubeKind token_reviews = { "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", FALSE };
static const KubeKind access_reviews = { "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview",
                                         FALSE };

struct AccessReview {
  KubeClient *client;
  Recent *identities; /* hash of a token -> its TokenReview's answer, as text */
  Recent *yes, *no;   /* question as text -> nothing */
};

AccessReview *
access_review_new (KubeClient *client)
{
  AccessReview *self = g_new0 (AccessReview, 1);
  self->client = client;
  self->identities = recent_new (CACHE_BYTES, YES_AGE_MS);
  self->yes = recent_new (CACHE_BYTES, YES_AGE_MS);
  self->no = recent_new (CACHE_BYTES, NO_AGE_MS);
  return self;
}

void
access_review_free (AccessReview *self)
{
  if (self == NULL)
    return;
  recent_free (self->identities);
  recent_free (self->yes);
  recent_free (self->no);
  g_free (self);
}

void
kube_identity_clear (KubeIdentity *self)
{
  g_clear_pointer (&self->user, g_free);
  g_clear_pointer (&self->uid, g_free);
  g_clear_pointer (&self->groups, g_strfreev);
}

/* A review with an empty spec. */
static yyjson_mut_val *
new_review (const KubeKind *kind, yyjson_mut_doc *doc)
{
  g_autofree char *version = kube_kind_api_version (kind);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_strcpy (doc, root, "apiVersion", version);
  yyjson_mut_obj_add_strcpy (doc, root, "kind", kind->kind);
  return yyjson_mut_obj_add_obj (doc, root, "spec");
}

static KubeObject *
review_token (Ctx *ctx, AccessReview *self, const char *token, GError **error)
{
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *spec = new_review (&token_reviews, doc);
  yyjson_mut_obj_add_strcpy (doc, spec, "token", token);
  KubeTarget target = { .kind = &token_reviews };
  return kube_client_create (ctx, self->client, &target, doc, error);
}

static gboolean
read_identity (yyjson_val *status, KubeIdentity *out_identity, GError **error)
{
  yyjson_val *user = json_get_object (status, "user"), *group;
  const char *name = json_get_string (user, "username"), *uid = json_get_string (user, "uid");
  if (!yyjson_is_true (yyjson_obj_get (status, "authenticated")) || name == NULL || name[0] == '\0')
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "Unauthorized", "the token is not valid");
  g_autoptr (GPtrArray) groups = g_ptr_array_new ();
  size_t index, n;
  yyjson_arr_foreach (json_get_array (user, "groups"), index, n, group)
  {
    if (yyjson_is_str (group) && groups->len < MAX_GROUPS)
      g_ptr_array_add (groups, g_strdup (yyjson_get_str (group)));
  }
  g_ptr_array_add (groups, NULL);
  *out_identity = (KubeIdentity){ g_strdup (name), g_strdup (uid != NULL ? uid : ""),
                                  (char **) g_ptr_array_steal (groups, NULL) };
  return TRUE;
}

gboolean
access_review_identify (Ctx *ctx, AccessReview *self, const char *token, KubeIdentity *out_identity, GError **error)
{
  gsize size = strlen (token);
  Digest digest;
  char key[DIGEST_STRING_SIZE];
  if (size == 0 || size > MAX_TOKEN_BYTES)
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "Unauthorized", "the token is not valid");
  digest_of (DIGEST_SHA256, token, size, &digest);
  digest_format (&digest, key);
  g_autoptr (GBytes) known = recent_get (self->identities, key);
  g_autoptr (KubeObject) review = NULL;
  if (known != NULL)
    review = kube_object_parse (g_bytes_get_data (known, NULL), g_bytes_get_size (known), G_MAXSIZE, error);
  else
    review = review_token (ctx, self, token, error);
  if (review == NULL || !read_identity (kube_object_status (review), out_identity, error))
    return FALSE;
  if (known == NULL)
    {
      /* Without the token, which the answer repeats. */
      g_autoptr (yyjson_mut_doc) doc = kube_object_edit (review);
      yyjson_mut_obj_remove_key (yyjson_mut_doc_get_root (doc), "spec");
      gsize text_size = 0;
      char *text = json_write (doc, &text_size);
      g_autoptr (GBytes) kept = g_bytes_new_take (text, text_size);
      recent_put (self->identities, key, kept);
    }
  return TRUE;
}

static void
add_text (yyjson_mut_doc *doc, yyjson_mut_val *object, const char *name, const char *value)
{
  if (value != NULL && value[0] != '\0')
    yyjson_mut_obj_add_strcpy (doc, object, name, value);
}

static yyjson_mut_doc *
new_access_review (const KubeIdentity *identity, const AccessQuestion *question)
{
  yyjson_mut_doc *doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *spec = new_review (&access_reviews, doc);
  add_text (doc, spec, "user", identity->user);
  add_text (doc, spec, "uid", identity->uid);
  yyjson_mut_val *groups = yyjson_mut_obj_add_arr (doc, spec, "groups");
  for (guint i = 0; identity->groups != NULL && identity->groups[i] != NULL; i++)
    yyjson_mut_arr_add_strcpy (doc, groups, identity->groups[i]);
  yyjson_mut_val *attributes = yyjson_mut_obj_add_obj (doc, spec, "resourceAttributes");
  add_text (doc, attributes, "verb", question->verb);
  add_text (doc, attributes, "group", question->group);
  add_text (doc, attributes, "resource", question->resource);
  add_text (doc, attributes, "subresource", question->subresource);
  add_text (doc, attributes, "namespace", question->namespace);
  add_text (doc, attributes, "name", question->name);
  return doc;
}

static gboolean
fail_forbidden (const KubeIdentity *identity, const AccessQuestion *question, GError **error)
{
  return am_fail (error, AM_ERROR_PERMISSION_DENIED, "Forbidden", "%s may not %s %s%s%s%s%s%s%s", identity->user,
                  question->verb, question->resource, question->subresource != NULL ? "/" : "",
                  question->subresource != NULL ? question->subresource : "", question->name != NULL ? " " : "",
                  question->name != NULL ? question->name : "", question->namespace != NULL ? " in namespace " : "",
                  question->namespace != NULL ? question->namespace : "");
}

gboolean
access_review_require (Ctx *ctx, AccessReview *self, const KubeIdentity *identity, const AccessQuestion *question,
                       GError **error)
{
  g_autoptr (yyjson_mut_doc) doc = new_access_review (identity, question);
  g_autofree char *key = json_write (doc, NULL);
  g_autoptr (GBytes) nothing = g_bytes_new (NULL, 0), yes = recent_get (self->yes, key),
                     no = recent_get (self->no, key);
  if (yes != NULL)
    return TRUE;
  if (no != NULL)
    return fail_forbidden (identity, question, error);
  KubeTarget target = { .kind = &access_reviews };
  g_autoptr (KubeObject) review = kube_client_create (ctx, self->client, &target, doc, error);
  if (review == NULL)
    return FALSE;
  gboolean allowed = yyjson_is_true (yyjson_obj_get (kube_object_status (review), "allowed"));
  recent_put (allowed ? self->yes : self->no, key, nothing);
  return allowed || fail_forbidden (identity, question, error);
}
