/* Speaks HTTP with one repository of one registry: addresses, credentials and tokens, what errors mean.
 * Private to registry/. Thread-safe. */
#pragma once

#include "net/http_client.h"
#include "registry/repository_remote.h"

/* What a token must allow. */
typedef enum { REGISTRY_PULL, REGISTRY_PUSH, REGISTRY_DELETE, N_REGISTRY_ACTIONS } RegistryAction;

typedef enum { WIRE_UNKNOWN, WIRE_SPOKEN, WIRE_NOT_SPOKEN } WireState;

typedef struct RegistryClient RegistryClient;

/* INVALID_ARGUMENT (reason NAME_INVALID) for a bad host or name. */
RegistryClient *registry_client_new (const RegistryConfig *config, const char *name, GError **error);
void registry_client_free (RegistryClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RegistryClient, registry_client_free)

const char *registry_client_name (const RegistryClient *self);
/* "registry.example/team/model" */
const char *registry_client_display (const RegistryClient *self);
const char *registry_client_host (const RegistryClient *self);
/* "https://registry.example/v2/team/model/" and what the format makes; caller frees. */
char *registry_client_url (const RegistryClient *self, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Whether a URL is on the registry itself, so that credentials may go there. */
gboolean registry_client_is_home (const RegistryClient *self, const char *url);

/* Performs a call as http_client_call does, with whatever authorization the registry asks for: on the first 401 the
 * challenge is answered and the call repeated, if its upload can be. Credentials go to the registry's own
 * origin only. Errors name the repository and say what to do; UNAUTHENTICATED when the answer is 401 twice. */
gboolean registry_client_call (Ctx *ctx, RegistryClient *self, RegistryAction action, const HttpCall *call,
                               HttpReply *out_reply, GError **error);
/* Whether the server speaks the chunk wire, as far as its answers told; WIRE_NOT_SPOKEN when it shall not be used. */
WireState registry_client_wire (const RegistryClient *self);
/* From now on it does not, whatever it says. */
void registry_client_refuse_wire (RegistryClient *self);
