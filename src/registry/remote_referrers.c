/* Who refers to a manifest, with the referrers API and without (distribution-spec 1.1, "Listing Referrers",
 * "Referrers Tag Schema"). */
#include "registry/remote.h"

#include <string.h>

#include "oci/manifest.h"
#include "oci/referrers.h"

/* Others may change the fallback's index between our reading and writing it. */
#define MAX_ATTEMPTS 5u

static gboolean
take_index (Remote *self, GBytes *bytes, GPtrArray *referrers, GError **error)
{
  g_autoptr (Manifest) index = manifest_parse (bytes, OCI_INDEX, error);
  if (index == NULL)
    {
      g_prefix_error (error, "%s: list of referrers: ", self->base.display);
      return FALSE;
    }
  for (guint i = 0; i < index->manifests->len; i++)
    {
      const Descriptor *descriptor = g_ptr_array_index (index->manifests, i);
      g_ptr_array_add (referrers, g_memdup2 (&descriptor->digest, sizeof descriptor->digest));
    }
  return referrers->len <= REPOSITORY_MAX_REFERRERS
         || am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "%s: a manifest has more than %u referrers",
                     self->base.display, REPOSITORY_MAX_REFERRERS);
}

/* An answer of another type is from something that knows no referrers. */
static gboolean
take_page (Remote *self, const HttpReply *reply, GPtrArray *referrers, GError **error)
{
  const char *type = http_reply_header (reply, "content-type");
  if (type == NULL || !g_str_has_prefix (type, OCI_INDEX))
    return am_fail (error, AM_ERROR_UNIMPLEMENTED, NULL, "%s knows no referrers", self->base.display);
  return take_index (self, reply->body, referrers, error);
}

/* The index under the fallback's tag; NULL without an error when there is none. */
static GBytes *
get_fallback (Ctx *ctx, Remote *self, const Digest *subject, GError **error)
{
  g_autofree char *tag = referrers_tag (subject);
  g_autoptr (GError) failure = NULL;
  GBytes *index = repository_get_manifest (ctx, &self->base, tag, NULL, NULL, &failure);
  if (index == NULL && !am_error_is (failure, AM_ERROR_NOT_FOUND))
    g_propagate_error (error, g_steal_pointer (&failure));
  return index;
}

static gboolean
list_fallback (Ctx *ctx, Remote *self, const Digest *subject, GPtrArray *referrers, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autoptr (GBytes) index = get_fallback (ctx, self, subject, &failure);
  if (failure != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  return index == NULL || take_index (self, index, referrers, error);
}

GPtrArray *
remote_list_referrers (Ctx *ctx, Repository *base, const Digest *subject, GError **error)
{
  Remote *self = (Remote *) base;
  g_autoptr (GPtrArray) referrers = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GError) failure = NULL;
  char text[DIGEST_STRING_SIZE];
  g_autofree char *url = registry_client_url (self->client, "referrers/%s", digest_format (subject, text));
  if (remote_read_pages (ctx, self, url, take_page, referrers, &failure))
    return g_steal_pointer (&referrers);
  gboolean has_api = referrers->len > 0
                     || !(am_error_is (failure, AM_ERROR_NOT_FOUND) || am_error_is (failure, AM_ERROR_UNIMPLEMENTED));
  if (has_api)
    g_propagate_error (error, g_steal_pointer (&failure));
  return !has_api && list_fallback (ctx, self, subject, referrers, error) ? g_steal_pointer (&referrers) : NULL;
}

/* `old` (NULL: none) with the entry, or without it where `descriptor` is NULL; `*out_is_so` when it was so before. */
static GBytes *
change_index (GBytes *old, const Digest *referrer, const char *descriptor, gboolean *out_is_so, GError **error)
{
  gboolean had = FALSE;
  GBytes *index = descriptor != NULL ? referrers_index_add (old, referrer, descriptor, &had, error)
                                     : referrers_index_remove (old, referrer, &had, error);
  *out_is_so = had == (descriptor != NULL);
  return index;
}

/* Enters the referrer into the fallback's index, or strikes it out where `descriptor` is NULL. */
static gboolean
change_fallback (Ctx *ctx, Remote *self, const Digest *subject, const Digest *referrer, const char *descriptor,
                 GError **error)
{
  g_autofree char *tag = referrers_tag (subject);
  for (guint i = 0; i < MAX_ATTEMPTS; i++)
    {
      gboolean is_so = FALSE;
      g_autoptr (GError) failure = NULL;
      g_autoptr (GBytes) old = get_fallback (ctx, self, subject, &failure);
      if (failure == NULL && old == NULL && descriptor == NULL)
        return TRUE;
      g_autoptr (GBytes) index = failure == NULL ? change_index (old, referrer, descriptor, &is_so, &failure) : NULL;
      if (index != NULL && is_so)
        return TRUE;
      if (index == NULL || !repository_put_manifest (ctx, &self->base, tag, OCI_INDEX, index, NULL, &failure))
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&failure),
                                      "%s: list of referrers in tag %s: ", self->base.display, tag);
          return FALSE;
        }
    }
  return am_fail (error, AM_ERROR_ABORTED, NULL, "%s: others change the list of referrers in tag %s again and again",
                  self->base.display, tag);
}

gboolean
remote_tell_referrer (Ctx *ctx, Remote *self, GBytes *bytes, const char *media_type, const Digest *digest,
                      GError **error)
{
  g_autoptr (Manifest) manifest = manifest_parse (bytes, media_type, NULL);
  if (manifest == NULL || manifest->subject == NULL)
    return TRUE;
  g_autofree char *descriptor = manifest_referrer_descriptor (manifest, digest, g_bytes_get_size (bytes));
  return change_fallback (ctx, self, &manifest->subject->digest, digest, descriptor, error);
}

gboolean
remote_find_subject (Ctx *ctx, Remote *self, const char *selector, gboolean *out_has, Digest *out_subject,
                     GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autofree char *type = NULL;
  *out_has = FALSE;
  g_autoptr (GBytes) bytes = repository_get_manifest (ctx, &self->base, selector, &type, NULL, &failure);
  if (bytes == NULL && am_error_retryable (failure))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  g_autoptr (Manifest) manifest = bytes == NULL ? NULL : manifest_parse (bytes, type, NULL);
  if (manifest == NULL)
    am_ignore (&failure, "what cannot be read refers to nothing");
  else if (manifest->subject != NULL)
    {
      *out_has = TRUE;
      *out_subject = manifest->subject->digest;
    }
  return TRUE;
}

gboolean
remote_forget_referrer (Ctx *ctx, Remote *self, const Digest *subject, const Digest *digest, GError **error)
{
  return change_fallback (ctx, self, subject, digest, NULL, error);
}
