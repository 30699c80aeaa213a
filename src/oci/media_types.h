/* Media types and annotation keys of the field, in one place (image-spec 1.1; modelpack.md). */
#pragma once

#define OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define OCI_EMPTY "application/vnd.oci.empty.v1+json"
#define DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define DOCKER_MANIFEST_LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define MODEL_ARTIFACT "application/vnd.cncf.model.manifest.v1+json"
#define MODEL_CONFIG "application/vnd.cncf.model.config.v1+json"
#define OCTET_STREAM "application/octet-stream"

/* The chunk wire between our own programs (storage.md). */
#define WIRE_CHUNKS "application/vnd.ai-models.chunks"
#define WIRE_RECIPE "application/vnd.ai-models.recipe"
/* "1" on answers of a server that speaks it. */
#define WIRE_HEADER "X-Ai-Models-Chunks"
/* Exact number of decoded bytes an upload session holds (OCI's Range cannot say zero). */
#define WIRE_OFFSET_HEADER "X-Ai-Models-Upload-Offset"
/* "first-last", inclusive: the decoded bytes that the frames of a WIRE_CHUNKS answer stand for. */
#define WIRE_RANGE_HEADER "X-Ai-Models-Decoded-Range"
/* At most so many digests (32 bytes each) in one POST <session>/known; answered by as many '0' or '1'. */
#define WIRE_KNOWN_MAX 4096u

#define ANNOTATION_TITLE "org.opencontainers.image.title"
#define ANNOTATION_FILEPATH "org.cncf.model.filepath"
#define ANNOTATION_FILE_METADATA "org.cncf.model.file.metadata+json"
