/* A registry on loopback that does as its script says and remembers what it was asked: for the tests of the client
 * against servers that lie, stall, or can do less than ours. Test code only. */
#pragma once

#include "net/http_server.h"
#include "registry/repository_remote.h"

/* The first rule that fits a request answers it; none: 404. */
typedef struct {
  const char *method; /* NULL: any */
  const char *path;   /* glob over "/path?query", decoded */
  guint times;        /* answers so many requests and then fits no more; 0: always */
  const char *unless; /* fits only requests whose Authorization is not this; NULL: all */
  guint status;
  const char *headers; /* lines "Name: value"; "@HERE@" and "@OTHER@" stand for "http://127.0.0.1:port" of this server
                          and of the one that was given as the other, "@ELSEWHERE@" for "http://localhost:port" of it */
  const char *text;    /* body; NULL: `blob`, when there is one */
  GBytes *blob;        /* a Range is honoured: 206, with a true Content-Range unless `headers` has one */
  guint64 cut_after;   /* the connection breaks after so many bytes of the body; 0: not */
  guint64 stall_after; /* no byte comes after so many of the body; 0: not */
  gboolean is_silent;  /* no byte of the body ever comes */
  gboolean is_endless; /* the body repeats for ever */
} ScriptRule;

typedef struct {
  Ctx *ctx;
  HttpServer *server;
  char *url, *host;
  const char *other_url;
  char *elsewhere_url;
  const ScriptRule *rules;
  guint n_rules;
  GMutex lock;
  guint *n_answered;    /* by each rule */
  GPtrArray *requests;  /* "PUT /path?query auth=Basic x range=bytes=0-1 content-range=0-1 size=2" */
  GByteArray *received; /* bodies of the PATCHes and PUTs of uploads that were answered with 2xx, in order */
} ScriptedRegistry;

/* `other` may be NULL; both outlive their use. */
void scripted_registry_start (ScriptedRegistry *self, const ScriptRule *rules, guint n_rules,
                              const ScriptedRegistry *other);
void scripted_registry_stop (ScriptedRegistry *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ScriptedRegistry, scripted_registry_stop)
/* Requests whose line fits the glob. */
guint scripted_registry_count (ScriptedRegistry *self, const char *glob);
/* A client of it, of repository team/m, with user "u" and password "p", that is quick to try again; it waits 10 s for
 * the next byte unless told otherwise. */
Repository *scripted_registry_client (ScriptedRegistry *self, gint64 no_progress_timeout_ms);
/* "Basic dTpw", what that client sends. */
#define SCRIPT_BASIC "Basic dTpw"
