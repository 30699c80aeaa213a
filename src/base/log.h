/* Structured logging: one JSON object a line (or a calm text line) on standard error.
 * Never pass a token, a presigned URL or a secret as a value. Thread-safe. */
#pragma once

#include "base/ctx.h"

typedef enum { AM_LOG_DEBUG, AM_LOG_INFO, AM_LOG_WARNING, AM_LOG_ERROR } AmLogLevel;
typedef enum { AM_LOG_FORMAT_TEXT, AM_LOG_FORMAT_JSON } AmLogFormat;

/* Until called: level INFO, text. `component` is copied (may be NULL). */
void am_log_init (AmLogLevel level, AmLogFormat format, const char *component);
/* Every value of a field is written as `veil` (NULL: as it is) gives it out; from any thread. Call while nothing else logs. */
void am_log_set_veil (char *(*veil) (const char *value, gpointer data), gpointer data);
gboolean am_log_enabled (AmLogLevel level);
gboolean am_log_level_parse (const char *text, AmLogLevel *out_level);

/* Pairs of key and value strings, ended by NULL. A NULL value is left out. `ctx` may be NULL. */
void am_log (Ctx *ctx, AmLogLevel level, const char *message, ...) G_GNUC_NULL_TERMINATED;
#define am_log_debug(ctx, ...) am_log (ctx, AM_LOG_DEBUG, __VA_ARGS__)
#define am_log_info(ctx, ...) am_log (ctx, AM_LOG_INFO, __VA_ARGS__)
#define am_log_warning(ctx, ...) am_log (ctx, AM_LOG_WARNING, __VA_ARGS__)
#define am_log_error(ctx, ...) am_log (ctx, AM_LOG_ERROR, __VA_ARGS__)

/* The level at which a pause before another attempt is told: somebody would wonder about a long one. */
#define AM_LOG_PAUSE(delay_ms) ((delay_ms) >= 5000 ? AM_LOG_WARNING : AM_LOG_DEBUG)

/* Short-lived decimal text for a log value: valid until this thread asked for 16 more. */
const char *am_u64 (guint64 value);
#define AM_U64(value) am_u64 (value)
