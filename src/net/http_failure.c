/* Why a transfer failed: libcurl's codes in our words. */
#include <string.h>

#include "base/text.h"
#include "net/http_reply.h"
#include "net/http_transfer.h"

#define LOOK_TIMEOUT_MS 3000L
#define MAX_NAME_BYTES 200

static const struct {
  CURLcode code;
  HttpFailure failure;
  AmErrorCode error;
  const char *reason;
} curl_failures[] = {
  { CURLE_COULDNT_RESOLVE_HOST, HTTP_FAILED_BEFORE_SENDING, AM_ERROR_UNAVAILABLE, "HostUnreachable" },
  { CURLE_COULDNT_RESOLVE_PROXY, HTTP_FAILED_BEFORE_SENDING, AM_ERROR_UNAVAILABLE, "HostUnreachable" },
  { CURLE_COULDNT_CONNECT, HTTP_FAILED_BEFORE_SENDING, AM_ERROR_UNAVAILABLE, "HostUnreachable" },
  { CURLE_SSL_CONNECT_ERROR, HTTP_FAILED_BEFORE_SENDING, AM_ERROR_UNAVAILABLE, "TlsFailed" },
  { CURLE_PEER_FAILED_VERIFICATION, HTTP_FAILED_FINALLY, AM_ERROR_FAILED_PRECONDITION, "CertificateNotTrusted" },
  { CURLE_SSL_CACERT_BADFILE, HTTP_FAILED_FINALLY, AM_ERROR_FAILED_PRECONDITION, "CertificateNotTrusted" },
  { CURLE_URL_MALFORMAT, HTTP_FAILED_FINALLY, AM_ERROR_INVALID_ARGUMENT, NULL },
};

static int
on_look_progress (void *user_data, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
  return ctx_check (user_data, NULL) ? 0 : 1;
}

/* Value of the last certificate's `field`, "Issuer:"; caller frees; NULL when it has none. */
static char *
certificate_field (const struct curl_certinfo *chain, const char *field)
{
  const struct curl_slist *each = chain->num_of_certs > 0 ? chain->certinfo[chain->num_of_certs - 1] : NULL;
  for (; each != NULL; each = each->next)
    if (g_str_has_prefix (each->data, field))
      return g_utf8_make_valid (each->data + strlen (field),
                                (gssize) MIN (strlen (each->data + strlen (field)), MAX_NAME_BYTES));
  return NULL;
}

/* Who signed the server's certificates: another connection, over which nothing is sent, looks. NULL: it did not come
 * about. Caller frees. */
static char *
find_issuer (const HttpTransfer *self)
{
  struct curl_certinfo *chain = NULL;
  char *issuer = NULL;
  CURL *easy = curl_easy_init ();
  if (easy == NULL)
    return NULL;
  curl_easy_setopt (easy, CURLOPT_URL, self->url->text);
  curl_easy_setopt (easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt (easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt (easy, CURLOPT_CERTINFO, 1L);
  curl_easy_setopt (easy, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt (easy, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt (easy, CURLOPT_TIMEOUT_MS, LOOK_TIMEOUT_MS);
  curl_easy_setopt (easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt (easy, CURLOPT_XFERINFOFUNCTION, on_look_progress);
  curl_easy_setopt (easy, CURLOPT_XFERINFODATA, self->ctx);
  if (self->proxy != NULL)
    curl_easy_setopt (easy, CURLOPT_PROXY, self->proxy);
  if (curl_easy_perform (easy) == CURLE_OK && curl_easy_getinfo (easy, CURLINFO_CERTINFO, &chain) == CURLE_OK
      && chain != NULL)
    issuer = certificate_field (chain, "Issuer:");
  curl_easy_cleanup (easy);
  return issuer;
}

/* Names who vouches for the server, and who is believed. */
static void
explain_trust (const HttpTransfer *self, GError **error)
{
  const char *file = self->ca_file;
  g_autofree char *issuer = error != NULL ? find_issuer (self) : NULL;
  if (issuer == NULL)
    return;
  if (file == NULL && curl_easy_getinfo (self->handle->easy, CURLINFO_CAINFO, &file) != CURLE_OK)
    file = NULL;
  char *message = g_strdup_printf ("%s; its certificate is signed by \"%s\", and those in %s are trusted",
                                   (*error)->message, issuer, file != NULL ? file : "the system's list");
  g_free ((*error)->message);
  (*error)->message = message;
}

/* The proxy did not let the connection through. */
static gboolean
fail_proxy (const HttpTransfer *self, guint status, HttpFailure *out_failure, GError **error)
{
  const char *address = NULL;
  long port = 0;
  curl_easy_getinfo (self->handle->easy, CURLINFO_PRIMARY_IP, &address);
  curl_easy_getinfo (self->handle->easy, CURLINFO_PRIMARY_PORT, &port);
  g_autofree char *proxy = g_strdup_printf (" at %s port %ld", address != NULL ? address : "", port);
  *out_failure = http_status_is_passing (status) ? HTTP_FAILED_BEFORE_SENDING : HTTP_FAILED_FINALLY;
  return http_fail_proxy (status, proxy, self->method, self->url->display, error);
}

gboolean
http_transfer_fail (HttpTransfer *self, CURLcode code, HttpFailure *out_failure, GError **error)
{
  AmErrorCode kind = AM_ERROR_UNAVAILABLE;
  const char *reason = self->status == 0 ? "NoAnswer" : NULL;
  curl_off_t sent_after_us = 0;
  long proxy_status = 0;
  curl_easy_getinfo (self->handle->easy, CURLINFO_PRETRANSFER_TIME_T, &sent_after_us);
  curl_easy_getinfo (self->handle->easy, CURLINFO_HTTP_CONNECTCODE, &proxy_status);
  if (proxy_status >= 400)
    return fail_proxy (self, (guint) proxy_status, out_failure, error);
  *out_failure = sent_after_us > 0 ? HTTP_FAILED_UNKNOWN : HTTP_FAILED_BEFORE_SENDING;
  for (gsize i = 0; i < G_N_ELEMENTS (curl_failures); i++)
    if (curl_failures[i].code == code)
      {
        kind = curl_failures[i].error;
        reason = curl_failures[i].reason;
        *out_failure = curl_failures[i].failure;
      }
  am_fail (error, kind, reason, "%s %s: %s", self->method, self->url->display,
           self->message[0] != '\0' ? self->message : curl_easy_strerror (code));
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    explain_trust (self, error);
  return FALSE;
}
