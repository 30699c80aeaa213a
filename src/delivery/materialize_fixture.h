/* For the tests of the materializer: a model in a repository in memory, which may be away, and a volume. Test code only. */
#pragma once

#include "delivery/materialize.h"

#define FIXTURE_WEIGHTS_BYTES 1200000u
#define FIXTURE_CHUNK_BYTES 400000u
#define FIXTURE_N_FILES 4u

typedef struct {
  char *volume;
  guint8 *weights;
  GBytes *manifest;
  char *digest;
  MaterializeOrder order;
  /* Of the repository: */
  gint n_chunks_sent;  /* atomic */
  gint n_opened;       /* atomic */
  guint fails_after;   /* chunks, once; 0: never */
  gboolean stays_away; /* every time, not once */
  guint verify_ms;     /* how long a start takes before the first byte moves */
  AmErrorCode failure;
} MaterializeFixture;

void materialize_fixture_set_up (MaterializeFixture *self, gconstpointer data);
void materialize_fixture_tear_down (MaterializeFixture *self, gconstpointer data);
/* What the volume shows is the model, every byte of it, and nothing else; or, unless `is_whole`, nothing. */
void materialize_fixture_check (MaterializeFixture *self, gboolean is_whole);
gboolean materialize_fixture_shows_model (MaterializeFixture *self);
