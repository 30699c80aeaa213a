/* What the controller is told on its command line. Filled by main/, read by this folder; texts outlive the controller. */
#pragma once

#include "domain/delivery_state.h"
#include "domain/read_grant.h"
#include "domain/storage_verdict.h"
#include "storage/object_store.h"

/* Of the delivery of models to workloads. Nothing else counts unless it is on. */
typedef struct {
  gboolean is_on;      /* delivery.type SharedPVC */
  const char *account; /* of ours, as the API server calls it: "system:serviceaccount:NAMESPACE:NAME" */
  StorageClassSettings storage_classes;
  const char *materializer_image, *materializer_pull_secret; /* pull secret of the module's namespace, or NULL */
  const char *materializer_requests, *materializer_limits;   /* "cpu=1,memory=1Gi" */
  guint max_materializations;                                /* delivery.maxConcurrentMaterializations */
  const char *registry_peers;            /* its addresses are those of all replicas of the registry; or NULL */
  guint8 grant_key[READ_GRANT_KEY_SIZE]; /* read_grant_key of the salt */
  guint8 state_key[DELIVERY_KEY_SIZE];   /* delivery_key of the same */
} DeliverySettings;

typedef struct {
  const char *namespace; /* of the module */
  const char *identity;  /* of this replica, unlike any other */
  const char *lease;

  const char *worker_image, *worker_pull_secret, *worker_account; /* pull secret may be NULL */
  const char *worker_requests, *worker_limits;                    /* "cpu=1,memory=1Gi" */
  guint max_workers;

  const char *registry; /* host[:port], for us and for workers */
  gboolean registry_plain_http;
  const char *registry_ca_file;      /* ours; or NULL */
  const char *registry_login_dir;    /* ours: files username and password */
  const char *registry_write_secret; /* the same for workers */
  const char *registry_ca_secret;    /* for workers, key ca.crt; or NULL */

  const char *staging_store; /* URL; NULL: there are no uploads */
  /* Opens it; NOT_FOUND when nothing was ever put there. */
  ObjectStore *(*open_staging) (const char *place, GError **error);
  const char *artifacts_secret;    /* keys accessKey and secretKey for workers; or NULL */
  const char *artifacts_ca_secret; /* key ca.crt; or NULL */
  const char *upload_url;          /* base, without /v1; NULL: there are no uploads */

  gboolean has_accounting;
  guint64 capacity_limit_bytes; /* 0: none */

  const char *hf_endpoint, *ollama_registry; /* or NULL: the public ones */
  const char *sources_ca_config_map;         /* key ca.crt; or NULL */
  const char *https_proxy, *no_proxy;        /* of workers; or NULL */

  gint64 sweep_interval_ms, inventory_interval_ms;

  DeliverySettings delivery;
} ControllerSettings;
