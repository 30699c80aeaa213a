/* What a hub's refusal means to a person: a table of its answers, each with what to do about it. Private to sources/. */
#pragma once

#include "net/http_client.h"

typedef enum { REFUSAL_ANY_TOKEN, REFUSAL_WITHOUT_TOKEN, REFUSAL_WITH_TOKEN } RefusalToken;

/* The first row that fits counts. */
typedef struct {
  guint status;     /* 500: all from there on */
  const char *code; /* X-Error-Code; NULL: any */
  const char *says; /* a part of the hub's message; NULL: any */
  RefusalToken token;
  AmErrorCode error;
  const char *reason, *text; /* the text follows the name of what was asked for */
} RefusalRow;

typedef struct {
  const RefusalRow *rows;
  gsize n_rows;
  const char *mirror_setting; /* "HF_ENDPOINT" */
} RefusalTable;

/* Replaces `*error`, which came with `reply` from the hub itself (status 0: no answer), by one that begins with `name` and
 * says what to do; the hub's own words are in it. Returns FALSE. */
gboolean refusal_explain (const RefusalTable *table, const char *name, gboolean has_token, const HttpReply *reply,
                          GError **error);
