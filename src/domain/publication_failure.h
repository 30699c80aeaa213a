/* What a publication worker makes of an error: try again, give up and why, or end for now; and in which words a user hears
 * of it. publication-pipeline.md, conditions-reasons-events.md, decisions.md "Worker pods' failures". Pure. */
#pragma once

#include "base/error.h"

/* Whom the worker was dealing with. */
typedef enum {
  PUBLICATION_SOURCE, /* the hub, Ollama's registry: what a user named */
  PUBLICATION_MODULE, /* what is ours: DMCR, the bucket, the API server. The user is not to blame, and cannot mend it */
} PublicationParty;

typedef enum {
  PUBLICATION_TRY_AGAIN,
  PUBLICATION_TRY_SOME_MORE, /* for a while: at most PUBLICATION_MAX_TRIES times without progress */
  PUBLICATION_GIVE_UP,
  PUBLICATION_END_FOR_NOW, /* told to end */
} PublicationAction;

#define PUBLICATION_MAX_TRIES 10u

typedef struct {
  PublicationAction action;
  const char *reason; /* of the condition ArtifactResolved, when it is given up (in the end); static */
} PublicationVerdict;

/* While files are moved from the one to the other, the party is PUBLICATION_MODULE: what sources alone say, their
 * errors' reasons tell. */
PublicationVerdict publication_judge (const GError *error, PublicationParty party);

/* Before the next attempt after `n_failures` in a row: a second, doubled each time, at most 5 minutes, or 30 s where it is
 * ours; but what was asked for, up to 5 minutes. */
gint64 publication_pause_ms (PublicationParty party, guint n_failures, gint64 retry_after_ms);

/* Stands for every word that holds `needle`. */
typedef struct {
  const char *needle, *shown; /* needle NULL or "": nothing */
} PublicationVeil;

/* `message` for the status of a Model: veiled, and with what to write into the object where a command line would take an
 * option. Caller frees. */
char *publication_words (const char *message, const PublicationVeil *veils, gsize n_veils);
