/* The server's certificate and key, reloaded when their files change. Private to net/. Thread-safe. */
#pragma once

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>

#include "base/error.h"

typedef struct HttpTls HttpTls;

/* INVALID_ARGUMENT when the pair cannot be read or does not belong together. */
HttpTls *http_tls_new (const char *certificate_file, const char *key_file, GError **error);
void http_tls_free (HttpTls *self); /* after the last connection is gone */
/* Looks whether the files are still the same (by device, inode, size, time of what the names resolve
 * to) and takes a new good pair into use; a bad one is logged and the old one stays. */
void http_tls_poll (HttpTls *self);
/* The current pair, in the form GnuTLS's retrieve function gives it; stays valid for ten minutes. */
void http_tls_current (HttpTls *self, gnutls_pcert_st **out_chain, guint *out_length, gnutls_privkey_t *out_key);
