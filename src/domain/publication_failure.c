#include "domain/publication_failure.h"

#include <string.h>

#define FIRST_PAUSE_MS 1000
#define MAX_PAUSE_MS (5 * 60 * 1000)
#define MAX_PAUSE_OF_OURS_MS (30 * 1000)
#define MAX_DOUBLINGS 16

#define FAILED "PublicationFailed"

/* By reason, before codes are looked at. */
static const struct {
  const char *reason;
  PublicationVerdict verdict;
} by_reason[] = {
  { "InsufficientStorage", { PUBLICATION_GIVE_UP, "InsufficientStorage" } },
  { "StorageUsageUnknown", { PUBLICATION_TRY_AGAIN, FAILED } },
  { "UnsupportedSource", { PUBLICATION_GIVE_UP, "UnsupportedSource" } },
  { "InvalidUrl", { PUBLICATION_GIVE_UP, "UnsupportedSource" } },
  /* What only a source says. */
  { "HubRateLimited", { PUBLICATION_TRY_SOME_MORE, FAILED } },
  { "HubAnswer", { PUBLICATION_TRY_SOME_MORE, FAILED } }, /* a page of somebody on the way, as a rule */
  { "HubGated", { PUBLICATION_GIVE_UP, FAILED } },
  { "HubUnauthorized", { PUBLICATION_GIVE_UP, FAILED } },
  { "HubForbidden", { PUBLICATION_GIVE_UP, FAILED } },
  { "HubNotFound", { PUBLICATION_GIVE_UP, FAILED } },
  { "HubRevisionNotFound", { PUBLICATION_GIVE_UP, FAILED } },
  { "UploadGone", { PUBLICATION_GIVE_UP, FAILED } },
  { "SourceChanged", { PUBLICATION_GIVE_UP, FAILED } },
  { "SourceCorrupt", { PUBLICATION_GIVE_UP, FAILED } },
  /* Limits that stay. */
  { "MANIFEST_BLOB_UNKNOWN", { PUBLICATION_TRY_SOME_MORE, FAILED } },
  { "FormatLimitExceeded", { PUBLICATION_GIVE_UP, FAILED } },
  { "SIZE_INVALID", { PUBLICATION_GIVE_UP, FAILED } },
};

/* Answers of what is ours that somebody else will mend: rotated passwords and certificates, roles that are not there yet. */
static const AmErrorCode passing_of_ours[] = {
  AM_ERROR_UNAUTHENTICATED,    AM_ERROR_PERMISSION_DENIED, AM_ERROR_FAILED_PRECONDITION,
  AM_ERROR_RESOURCE_EXHAUSTED, AM_ERROR_INTERNAL,          AM_ERROR_UNKNOWN,
};

/* What a second transfer may mend: something was removed or damaged while the first was under way. */
static const AmErrorCode mended_by_another_try[] = { AM_ERROR_NOT_FOUND, AM_ERROR_DATA_LOSS, AM_ERROR_OUT_OF_RANGE };

static gboolean
is_one_of (const GError *error, const AmErrorCode *codes, gsize n_codes)
{
  for (gsize i = 0; i < n_codes; i++)
    if (am_error_is (error, codes[i]))
      return TRUE;
  return FALSE;
}

PublicationVerdict
publication_judge (const GError *error, PublicationParty party)
{
  if (am_error_is (error, AM_ERROR_CANCELLED))
    return (PublicationVerdict){ PUBLICATION_END_FOR_NOW, FAILED };
  for (guint i = 0; i < G_N_ELEMENTS (by_reason); i++)
    if (am_error_has_reason (error, by_reason[i].reason))
      return by_reason[i].verdict;
  gboolean is_rationed = am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED) && am_error_retry_after_ms (error) > 0;
  PublicationVerdict verdict = { PUBLICATION_GIVE_UP, FAILED };
  if (am_error_retryable (error) || is_rationed)
    verdict.action = PUBLICATION_TRY_AGAIN;
  else if (party == PUBLICATION_MODULE && is_one_of (error, passing_of_ours, G_N_ELEMENTS (passing_of_ours)))
    verdict.action = PUBLICATION_TRY_AGAIN;
  else if (party == PUBLICATION_MODULE
           && is_one_of (error, mended_by_another_try, G_N_ELEMENTS (mended_by_another_try)))
    verdict.action = PUBLICATION_TRY_SOME_MORE;
  return verdict;
}

gint64
publication_pause_ms (PublicationParty party, guint n_failures, gint64 retry_after_ms)
{
  guint n_doublings = MIN (MAX (n_failures, 1) - 1, MAX_DOUBLINGS);
  gint64 longest_ms = party == PUBLICATION_MODULE ? MAX_PAUSE_OF_OURS_MS : MAX_PAUSE_MS;
  gint64 pause_ms = MIN ((gint64) FIRST_PAUSE_MS << n_doublings, longest_ms);
  return CLAMP (MAX (pause_ms, retry_after_ms), FIRST_PAUSE_MS, MAX_PAUSE_MS);
}

/* What commands say, and what is said in a cluster. */
static const PublicationVeil phrases[] = {
  { "give a token of that account with --token-file or HF_TOKEN",
    "name a Secret with a token of that account in spec.source.authSecretRef" },
  { "give a token with --token-file or HF_TOKEN", "name a Secret with a token in spec.source.authSecretRef" },
  { "name the one wanted, or a URL of its folder or file",
    "let spec.source.url lead to its folder or file (.../tree/REVISION/FOLDER, .../blob/REVISION/FILE), or upload the one "
    "that is wanted" },
  { "or give a token, which allows more",
    "or name a Secret with a token in spec.source.authSecretRef, which allows more" },
  { "A proxy is named by https_proxy, a mirror by HF_ENDPOINT",
    "A proxy and a mirror are named by the module's settings" },
  { "A proxy is named by https_proxy, a mirror by OLLAMA_REGISTRY",
    "A proxy and a mirror are named by the module's settings" },
  { "A mirror is named by HF_ENDPOINT", "A mirror is named by the module's settings" },
  { "A mirror is named by OLLAMA_REGISTRY", "A mirror is named by the module's settings" },
  { "Then write http:// in HF_ENDPOINT", "Then the module's settings must name it with http://" },
  { "Then write http:// in OLLAMA_REGISTRY", "Then the module's settings must name it with http://" },
  { "log in: check --username and --password-stdin, or the registry's entry in the docker config",
    "it does not accept the module's login" },
  { "if the registry has a private certificate authority, name its certificate with --ca-file",
    "the module does not trust its certificate" },
  { "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "the module's bucket does not accept the module's keys" },
  { "name the certificate authority of the mirror or proxy with SSL_CERT_FILE",
    "the module's settings must name the certificate authority of the mirror or proxy" },
};

static const char *
veiled (const char *word, const PublicationVeil *veils, gsize n_veils)
{
  for (gsize i = 0; i < n_veils; i++)
    if (veils[i].needle != NULL && *veils[i].needle != '\0' && strstr (word, veils[i].needle) != NULL)
      return veils[i].shown;
  return NULL;
}

/* Marks behind a word that are none of it. */
static const char *
end_marks (const char *word)
{
  const char *end = word + strlen (word);
  while (end > word && strchr (":;,.)\"'", end[-1]) != NULL)
    end--;
  return end;
}

char *
publication_words (const char *message, const PublicationVeil *veils, gsize n_veils)
{
  g_autoptr (GString) text = g_string_new (message);
  for (guint i = 0; i < G_N_ELEMENTS (phrases); i++)
    g_string_replace (text, phrases[i].needle, phrases[i].shown, 0);
  g_auto (GStrv) words = g_strsplit (text->str, " ", -1);
  g_string_truncate (text, 0);
  for (gsize i = 0; words[i] != NULL; i++)
    {
      const char *shown = veiled (words[i], veils, n_veils);
      g_string_append_printf (text, "%s%s%s", i > 0 ? " " : "", shown != NULL ? shown : words[i],
                              shown != NULL ? end_marks (words[i]) : "");
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}
