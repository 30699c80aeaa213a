/* A registry of ours on loopback over a store in a temporary folder, open to everybody, and a plain client of it.
 * Test code only. */
#pragma once

#include "dmcr/dmcr.h"
#include "net/http_client.h"

typedef struct {
  char *root;
  Ctx *ctx;
  ObjectStore *objects;
  BlobStore *blobs;
  Dmcr *dmcr;
  HttpClient *client;
  char *base; /* "http://127.0.0.1:port" */
} DmcrFixture;

void dmcr_fixture_set_up (DmcrFixture *self, gconstpointer data);
void dmcr_fixture_tear_down (DmcrFixture *self, gconstpointer data);
#define DMCR_TEST(name, func) g_test_add (name, DmcrFixture, NULL, dmcr_fixture_set_up, func, dmcr_fixture_tear_down)

/* Status of a call; `header` is one more header line or NULL. `reply` is cleared first, and filled. */
guint dmcr_fixture_call (DmcrFixture *self, const char *method, const char *path, const char *header,
                         gconstpointer body, gsize size, HttpReply *reply);
