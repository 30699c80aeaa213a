/* Numbers for people and checked arithmetic on sizes from outside. Thread-safe. */
#pragma once

#include <glib.h>

/* "90.9 MB", decimal units as the hubs show them; caller frees. */
char *text_bytes (guint64 n_bytes);
/* "22.7M", "7B", "1.5T": at most one decimal digit, upper-case scale letter. Caller frees. */
char *text_count (guint64 count);
/* Decimal digits only, no sign, no space; FALSE on overflow or anything else. */
gboolean text_parse_u64 (const char *text, guint64 *out_value);
/* "8MiB", "100MB", "512k", "1073741824": FALSE on anything else. */
gboolean text_parse_bytes (const char *text, guint64 *out_bytes);
/* A Kubernetes quantity as a number of bytes, rounded up: "500Gi", "1.5T", "1e9", "2500m" (apimachinery's resource.Quantity;
 * suffixes n u m k M G T P E and Ki ... Ei are told apart by case). FALSE on anything else, a negative one, or more than
 * G_MAXINT64. */
gboolean text_parse_quantity (const char *text, guint64 *out_value);
/* 32 random lower-case hex digits as a UUID v4 text; `buffer` holds 37 bytes. */
void text_uuid (char buffer[37]);
/* TRUE for the form text_uuid makes. */
gboolean text_is_uuid (const char *text);
/* Now, as RFC 3339 in UTC with seconds; caller frees. */
char *time_text_now (void);
/* Unix seconds of the years 1970 to 9999, so written; caller frees. */
char *time_text (gint64 time_s);
/* The other way round, of any RFC 3339 text: Unix seconds; 0 for NULL and for what is none. */
gint64 time_text_parse (const char *text);
