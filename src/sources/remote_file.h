/* The bytes of one file that a hub keeps somewhere, by ranges: finds where they are, goes on after broken connections, and
 * asks again when a signed address has expired. Private to sources/. Thread-safe. */
#pragma once

#include "net/http_client.h"
#include "sources/fetch_gate.h"

/* What differs from hub to hub. */
typedef struct {
  const char *who; /* "the hub", for messages */
  /* Asks the hub itself about the file, of which it said that it is at `url` (first the file's own address). A redirect is
   * an answer and is not followed. Checks what the answer says about the file. Blocks. */
  gboolean (*ask) (Ctx *ctx, gpointer data, const char *url, HttpReply *out_reply, GError **error);
  void (*free) (gpointer data);
} RemoteFileClass;

/* Borrowed for the call, but for `client` and `gate`, which must outlive the file. */
typedef struct {
  HttpClient *client; /* makes one attempt for each call */
  const char *url;    /* of the hub */
  const char *origin; /* the hub's, as http_origin writes it */
  const char *name;   /* for the log */
  guint64 size_bytes; /* that the hub lists */
  gint64 retry_base_ms;
  FetchGate *gate; /* of all files of the source; NULL: the file is alone */
} RemoteFileConfig;

typedef struct RemoteFile RemoteFile;

/* Takes `data` over, for the class's functions. */
RemoteFile *remote_file_new (const RemoteFileClass *klass, gpointer data, const RemoteFileConfig *config);
void remote_file_free (RemoteFile *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RemoteFile, remote_file_free)
guint64 remote_file_size (const RemoteFile *self);
FetchGate *remote_file_gate (const RemoteFile *self); /* or NULL */
/* Fills `buffer` with [offset, offset + size) of the file, which the caller knows to be inside of it. Blocks. Errors: those
 * of the class; HubAnswer when the hub redirects nowhere, or a web page or compressed bytes come, HubForbidden when access
 * is refused where the bytes are, with a new address too; DATA_LOSS SourceCorrupt when what is there has another size than
 * was listed; FAILED_PRECONDITION SourceChanged, WrongRange; UNAVAILABLE after some attempts without a byte. */
gboolean remote_file_read (Ctx *ctx, RemoteFile *self, guint64 offset_bytes, guint8 *buffer, gsize size,
                           GError **error);
/* The same; `arrived` hears now and then how much of it is in the buffer for good. */
typedef void (*RemoteArrived) (gpointer data, gsize n_bytes);
gboolean remote_file_stream (Ctx *ctx, RemoteFile *self, guint64 offset_bytes, guint8 *buffer, gsize size,
                             RemoteArrived arrived, gpointer data, GError **error);
/* FAILED_PRECONDITION (reason SourceChanged): what `who` says now is not what it listed. Returns FALSE. */
gboolean remote_file_fail_changed (const char *who, const char *what, const char *seen, GError **error);
/* Whether an answer of this type (or NULL), whose size is not the file's, is a web page. */
gboolean remote_file_is_page (const char *content_type);
/* FAILED_PRECONDITION (reason HubAnswer): such a page came. Returns FALSE. */
gboolean remote_file_fail_page (GError **error);
