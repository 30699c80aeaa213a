#include "main/applets.h"

#include "registry/repository_local.h"
#include "registry/repository_remote.h"
#include "storage/object_store_fs.h"
#include "storage/object_store_s3.h"
#include "storage/s3_config.h"

ObjectStore *
places_open_objects (Ctx *ctx, const char *place, gboolean create, GError **error)
{
  return g_str_has_prefix (place, S3_SCHEME) ? object_store_s3_new (ctx, place, create, error)
                                             : object_store_fs_new (place, create, error);
}

static LocalStore *
open_store (const char *place, gboolean create, GError **error)
{
  g_autoptr (LocalStore) store = g_new0 (LocalStore, 1);
  store->objects = places_open_objects (NULL, place, create, error);
  if (store->objects == NULL)
    return NULL;
  store->blobs = blob_store_new (store->objects);
  return g_steal_pointer (&store);
}

static Repository *
open_remote (const RegistryAccess *access, const char *name, GError **error)
{
  RegistryConfig config = {
    .host = access->host,
    .plain_http = access->plain_http,
    .ca_file = access->ca_file,
    .insecure_skip_verify = access->insecure_skip_verify,
    .username = access->username,
    .password = access->password,
    .resume_dir = access->resume_dir,
  };
  return repository_remote_new (&config, name, error);
}

const Places places = { open_store, repository_local_new, open_remote };
