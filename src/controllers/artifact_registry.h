/* What the controller asks of the module's registry: is an artifact whole, and take it away. Errors never name the registry's
 * address, a repository or a key: they end in statuses and logs. One for a piece of work: login and certificates are read when it is made.
 * Thread-safe; calls block. */
#pragma once

#include "base/ctx.h"
#include "controllers/controller_settings.h"

typedef struct ArtifactRegistry ArtifactRegistry;

ArtifactRegistry *artifact_registry_new (const ControllerSettings *settings, GError **error);
void artifact_registry_free (ArtifactRegistry *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (ArtifactRegistry, artifact_registry_free)

/* Whether the manifest and every blob it names are there, in their sizes. `*out_damage` is NULL when they are, else what is
 * wrong, for people; caller frees. FALSE: that could not be found out (the registry is away, or refuses). */
gboolean artifact_registry_check (Ctx *ctx, ArtifactRegistry *self, const char *repository, const char *digest,
                                  char **out_damage, GError **error);
/* Removes the manifest (`digest` may be NULL: not known), and whatever the publication's tag names. What is not there is
 * fine. */
gboolean artifact_registry_remove (Ctx *ctx, ArtifactRegistry *self, const char *repository, const char *digest,
                                   GError **error);
