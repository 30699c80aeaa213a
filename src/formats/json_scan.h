/* A pull scanner over JSON text: strict grammar (RFC 8259), no tree. For the documents whose size a
 * stranger chooses and whose shape is known (safetensors headers, shard indexes): a tree costs up to ten
 * times the text, this costs nothing. Everything else goes through base/json.h. Used inside formats/.
 *
 * The text must be valid UTF-8 and outlive the scanner. Once a call has failed the scanner is spent. */
#pragma once

#include <glib.h>

#define JSON_SCAN_MAX_DEPTH 64

typedef struct {
  const char *text;
  gsize size;
  gsize pos;
  gboolean opened;  /* just behind '{' or '[': no comma is due */
  GString *scratch; /* a string that had escapes */
} JsonScan;

void json_scan_init (JsonScan *self, const char *text, gsize size);
void json_scan_clear (JsonScan *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (JsonScan, json_scan_clear)

/* The next byte that is not white space, not consumed; 0 at the end. */
char json_scan_peek (JsonScan *self);
/* Consumes '{' or '['. */
gboolean json_scan_open (JsonScan *self, char bracket, GError **error);
/* Moves to the next member or element of what was opened; `*out_more` is FALSE when `close` was met and
 * consumed (and only then, also after a failure). */
gboolean json_scan_next (JsonScan *self, char close, gboolean *out_more, GError **error);
/* A string, escapes resolved, with its length since it may hold NUL. Valid until the next string. */
gboolean json_scan_string (JsonScan *self, const char **out_text, gsize *out_size, GError **error);
/* A string and the colon behind it. */
gboolean json_scan_key (JsonScan *self, const char **out_text, gsize *out_size, GError **error);
/* An integer without sign, fraction or exponent that fits 64 bits. */
gboolean json_scan_u64 (JsonScan *self, guint64 *out_value, GError **error);
/* Any value, at most JSON_SCAN_MAX_DEPTH levels deep, checked but not kept. */
gboolean json_scan_skip (JsonScan *self, GError **error);
/* Nothing but white space may follow. */
gboolean json_scan_end (JsonScan *self, GError **error);
/* TRUE when `text` of `size` bytes is the C string `name`. */
gboolean json_scan_is (const char *text, gsize size, const char *name);
