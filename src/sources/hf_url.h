/* What a person pastes to name a model of the Hugging Face hub, in every form that its pages, its tools and other
 * programs use (formats-huggingface.md 1). Pure; used by publish/ and the commands. */
#pragma once

#include "base/error.h"

typedef struct {
  char *repository; /* "owner/name"; one segment for the oldest ones ("gpt2") */
  char *revision;   /* branch, tag, "refs/pr/1" or commit; NULL: the default branch */
  char *path;       /* a folder or file of it; NULL: all of it */
  char *variant;    /* which of its GGUF files, "Q4_K_M" (hf_variant.h); NULL: not said. Then path is NULL */
  /* The text does not tell where the revision ends: the shortest is taken, hf_url_widen gives the next. */
  gboolean is_guess;
} HfUrl;

/* TRUE when `text` names the hub, rightly formed or not: hf://, git@hf.co:, or a host of the hub with or without
 * https://. `endpoint` is the address of another hub, "https://mirror/hf" without a slash at its end; or NULL. */
gboolean hf_url_is (const char *text, const char *endpoint);
/* INVALID_ARGUMENT: reason UnsupportedSource for what is no model repository of the hub, else InvalidUrl; the message
 * says what is wrong and never shows user info or a query. */
gboolean hf_url_parse (const char *text, const char *endpoint, HfUrl *out_url, GError **error);
/* Moves one more segment of the path into the revision, for branches with a slash in their name. FALSE when there is
 * nothing to move. */
gboolean hf_url_widen (HfUrl *self);
void hf_url_clear (HfUrl *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (HfUrl, hf_url_clear)

/* Grammar of a repository's name: at most 96 bytes of [A-Za-z0-9_.-], with one slash at most. */
gboolean hf_repository_is_valid (const char *name);
