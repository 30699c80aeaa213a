#include "domain/model_task.h"

#include <string.h>

/* metadata-profile.md; behind it the known tasks that mean nothing to the API. */
static const TaskMeaning meanings[] = {
  { "text-generation", "Chat TextGeneration", "" },
  { "text2text-generation", "Chat TextGeneration", "" },
  { "summarization", "Chat TextGeneration", "" },
  { "conversational", "Chat TextGeneration", "" },
  { "feature-extraction", "Embeddings", "" },
  { "embeddings", "Embeddings", "" },
  { "text-embeddings-inference", "Embeddings", "" },
  { "sentence-similarity", "Embeddings", "" },
  { "rerank", "Rerank", "" },
  { "reranker", "Rerank", "" },
  { "text-ranking", "Rerank", "" },
  { "automatic-speech-recognition", "SpeechToText", "AudioInput" },
  { "speech-to-text", "SpeechToText", "AudioInput" },
  { "text-to-speech", "TextToSpeech", "AudioOutput" },
  { "text-to-audio", "AudioGeneration", "AudioOutput" },
  { "text-to-music", "AudioGeneration", "AudioOutput" },
  { "audio-generation", "AudioGeneration", "AudioOutput" },
  { "translation", "Translation", "" },
  { "image-classification", "ImageClassification", "VisionInput" },
  { "zero-shot-image-classification", "ImageClassification", "VisionInput" },
  { "object-detection", "ObjectDetection", "VisionInput" },
  { "zero-shot-object-detection", "ObjectDetection", "VisionInput" },
  { "image-segmentation", "ImageSegmentation", "VisionInput" },
  { "image-to-text", "Chat ImageToText", "VisionInput MultiModalInput" },
  { "image-text-to-text", "Chat ImageToText", "VisionInput MultiModalInput" },
  { "visual-question-answering", "VisualQuestionAnswering", "VisionInput MultiModalInput" },
  { "document-question-answering", "VisualQuestionAnswering", "VisionInput MultiModalInput" },
  { "text-to-image", "ImageGeneration", "ImageOutput" },
  { "image-generation", "ImageGeneration", "ImageOutput" },
  { "unconditional-image-generation", "ImageGeneration", "ImageOutput" },
  { "image-to-image", "ImageGeneration", "VisionInput ImageOutput" },
  { "image-variation", "ImageGeneration", "VisionInput ImageOutput" },
  { "inpainting", "ImageGeneration", "VisionInput ImageOutput" },
  { "image-inpainting", "ImageGeneration", "VisionInput ImageOutput" },
  { "text-to-video", "VideoGeneration", "VideoOutput" },
  { "video-generation", "VideoGeneration", "VideoOutput" },
  { "image-to-video", "VideoGeneration", "VisionInput VideoOutput" },
  { "video-to-video", "VideoGeneration", "VideoInput VideoOutput" },
  { "any-to-any", "", "" },
  { "audio-classification", "", "" },
  { "audio-text-to-text", "", "" },
  { "audio-to-audio", "", "" },
  { "depth-estimation", "", "" },
  { "fill-mask", "", "" },
  { "image-feature-extraction", "", "" },
  { "image-text-to-image", "", "" },
  { "image-text-to-video", "", "" },
  { "image-to-3d", "", "" },
  { "keypoint-detection", "", "" },
  { "mask-generation", "", "" },
  { "multiple-choice", "", "" },
  { "question-answering", "", "" },
  { "table-question-answering", "", "" },
  { "text-classification", "", "" },
  { "text-retrieval", "", "" },
  { "text-to-3d", "", "" },
  { "time-series-forecasting", "", "" },
  { "token-classification", "", "" },
  { "video-classification", "", "" },
  { "video-text-to-text", "", "" },
  { "visual-document-retrieval", "", "" },
  { "voice-activity-detection", "", "" },
  { "zero-shot-classification", "", "" },
};

static const struct {
  const char *word, *task;
} synonyms[] = {
  { "reranking", "rerank" },
  { "text-ranking", "rerank" },
  { "sts", "sentence-similarity" },
  { "semantic-textual-similarity", "sentence-similarity" },
};

const TaskMeaning *
task_meaning (const char *task)
{
  for (guint i = 0; task != NULL && i < G_N_ELEMENTS (meanings); i++)
    if (strcmp (task, meanings[i].task) == 0)
      return &meanings[i];
  return NULL;
}

const char *
task_normalise (const char *text)
{
  g_autofree char *task = g_ascii_strdown (text != NULL ? text : "", -1);
  g_strdelimit (g_strstrip (task), "_ ", '-');
  for (guint i = 0; i < G_N_ELEMENTS (synonyms); i++)
    if (strcmp (task, synonyms[i].word) == 0)
      return synonyms[i].task;
  if (g_str_has_prefix (task, "translation-")) /* translation_en_to_de */
    return "translation";
  const TaskMeaning *meaning = task_meaning (task);
  return meaning != NULL ? meaning->task : NULL;
}

const char *
task_declared (const char *const *model_index_tasks, const char *pipeline_tag)
{
  const char *agreed = NULL;
  gboolean differ = FALSE;
  for (; model_index_tasks != NULL && *model_index_tasks != NULL; model_index_tasks++)
    {
      const char *task = task_normalise (*model_index_tasks);
      differ |= task == NULL || (agreed != NULL && agreed != task);
      agreed = task;
    }
  return agreed != NULL && !differ ? agreed : task_normalise (pipeline_tag);
}

/* Bases whose models write text, whatever the ending (but for classifiers). */
static const char *const text_bases[] = { "Qwen3", "Qwen2", "Qwen2Moe", "Llama",   "Mistral", "Mixtral",
                                          "Phi3",  "Phi",   "Gemma",    "GPTNeoX", "Falcon",  NULL };

static const struct {
  const char *suffix, *task;
  gboolean is_generic; /* says little: a text base or an eye decides first */
} suffixes[] = {
  { "ForCausalLM", "text-generation", TRUE },
  { "ForConditionalGeneration", "text2text-generation", TRUE },
  { "ForSequenceClassification", "text-classification", FALSE },
  { "ForTokenClassification", "token-classification", FALSE },
  { "ForQuestionAnswering", "question-answering", FALSE },
  { "ForMaskedLM", "fill-mask", FALSE },
  { "LMHeadModel", "text-generation", TRUE },
  { "ForCTC", "automatic-speech-recognition", FALSE },
  { "ForSpeechSeq2Seq", "automatic-speech-recognition", FALSE },
  { "ForTextToSpeech", "text-to-speech", FALSE },
  { "ForImageClassification", "image-classification", FALSE },
  { "ForObjectDetection", "object-detection", FALSE },
  { "ForSemanticSegmentation", "image-segmentation", FALSE },
  { "ForUniversalSegmentation", "image-segmentation", FALSE },
  { "ForImageSegmentation", "image-segmentation", FALSE },
  { "Model", NULL, TRUE },
};

/* Families whose class names mislead. */
static const struct {
  const char *model_type, *task;
} speech_types[] = {
  { "whisper", "automatic-speech-recognition" },
  { "speech_to_text", "automatic-speech-recognition" },
  { "musicgen", "text-to-audio" },
  { "musicgen_melody", "text-to-audio" },
  { "bark", "text-to-speech" },
  { "vits", "text-to-speech" },
  { "parler_tts", "text-to-speech" },
  { "dia", "text-to-speech" },
  { "csm", "text-to-speech" },
};

/* A cross-encoder with one output ranks; of a decoder that may as well be a reward model. */
static gboolean
is_cross_encoder (const ModelFacts *facts)
{
  static const char *const parts[] = { "bert", "roberta", "electra", "mpnet", "gte", NULL };
  g_autofree char *type = g_ascii_strdown (facts->model_type != NULL ? facts->model_type : "", -1);
  for (guint i = 0; facts->n_labels == 1 && parts[i] != NULL; i++)
    if (strstr (type, parts[i]) != NULL)
      return TRUE;
  return strcmp (type, "new") == 0 && facts->n_labels == 1;
}

static gsize
base_size (const char *architecture, guint *out_row)
{
  for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++)
    if (g_str_has_suffix (architecture, suffixes[i].suffix))
      {
        *out_row = i;
        return strlen (architecture) - strlen (suffixes[i].suffix);
      }
  *out_row = G_N_ELEMENTS (suffixes);
  return strlen (architecture);
}

const char *
task_of_safetensors (const ModelFacts *facts)
{
  guint row;
  for (guint i = 0; i < G_N_ELEMENTS (speech_types); i++)
    if (g_strcmp0 (facts->model_type, speech_types[i].model_type) == 0)
      return speech_types[i].task;
  if (facts->is_sentence_transformer) /* beats the architecture: some of them are built on decoders */
    return "feature-extraction";
  if (facts->architecture == NULL)
    return NULL;
  g_autofree char *base = g_strndup (facts->architecture, base_size (facts->architecture, &row));
  gboolean is_known = row < G_N_ELEMENTS (suffixes), is_generic = !is_known || suffixes[row].is_generic;
  if (is_known && is_generic && facts->has_vision && suffixes[row].task != NULL)
    return "image-text-to-text";
  if (is_generic && g_strv_contains (text_bases, base))
    return "text-generation";
  if (is_known && strcmp (suffixes[row].suffix, "ForSequenceClassification") == 0 && is_cross_encoder (facts))
    return "rerank";
  return is_known ? suffixes[row].task : NULL;
}

const char *
task_of_gguf (const ModelFacts *facts)
{
  if (facts->is_adapter || facts->architecture == NULL)
    return NULL;
  if (facts->is_reranker)
    return "rerank";
  if (facts->is_sentence_transformer || facts->is_encoder || strstr (facts->architecture, "bert") != NULL
      || strcmp (facts->architecture, "t5encoder") == 0)
    return "feature-extraction";
  if (facts->is_encoder_decoder)
    return "text2text-generation";
  /* Image generators in this form have neither a vocabulary nor a context. */
  if (facts->context_tokens == 0 || facts->vocab_size == 0)
    return NULL;
  return facts->has_vision ? "image-text-to-text" : "text-generation";
}

/* Pieces of a pipeline's class name in lower case without "-_ .", first match wins. */
typedef struct {
  const char *piece, *meaning;
} PipelineRow;

static const PipelineRow pipeline_tasks[] = {
  { "imagetovideo", "image-to-video" },
  { "image2video", "image-to-video" },
  { "stablevideodiffusion", "image-to-video" },
  { "texttovideo", "text-to-video" },
  { "text2video", "text-to-video" },
  { "videotovideo", "video-to-video" },
  { "video2video", "video-to-video" },
  { "img2img", "image-to-image" },
  { "imagetoimage", "image-to-image" },
  { "inpaint", "inpainting" },
  { "texttoimage", "text-to-image" },
  { "text2image", "text-to-image" },
  { "stablediffusionpipeline", "text-to-image" },
  { "stablediffusionxlpipeline", "text-to-image" },
  { "fluxpipeline", "text-to-image" },
  { "pixart", "text-to-image" },
  { "kandinsky", "text-to-image" },
  { "audioldm", "text-to-audio" },
  { "audiogen", "text-to-audio" },
  { "stablediffusion3pipeline", "text-to-image" }, /* beyond the page, but sure */
};

static const PipelineRow pipeline_families[] = {
  { "stablediffusion", "stable-diffusion" },
  { "flux", "flux" },
  { "cogvideo", "cogvideo" },
  { "hunyuan", "hunyuan-video" },
  { "wan", "wan" },
  { "audioldm", "audioldm" },
};

static const char *
find_piece (const PipelineRow *rows, guint n_rows, const char *class_name)
{
  g_autoptr (GString) plain = g_string_new (NULL);
  for (const char *c = class_name; c != NULL && *c != '\0'; c++)
    if (strchr ("-_ .", *c) == NULL)
      g_string_append_c (plain, g_ascii_tolower (*c));
  for (guint i = 0; i < n_rows; i++)
    if (strstr (plain->str, rows[i].piece) != NULL)
      return rows[i].meaning;
  return NULL;
}

const char *
task_of_pipeline (const char *class_name)
{
  return find_piece (pipeline_tasks, G_N_ELEMENTS (pipeline_tasks), class_name);
}

const char *
family_of_pipeline (const char *class_name)
{
  return find_piece (pipeline_families, G_N_ELEMENTS (pipeline_families), class_name);
}

char *
family_of_architecture (const char *architecture)
{
  static const char *const endings[] = { "ForCausalLM",
                                         "ForConditionalGeneration",
                                         "ForSequenceClassification",
                                         "ForTokenClassification",
                                         "ForQuestionAnswering",
                                         "Model" };
  gsize size = strlen (architecture);
  for (guint i = 0; i < G_N_ELEMENTS (endings); i++)
    if (g_str_has_suffix (architecture, endings[i]))
      {
        size -= strlen (endings[i]);
        break;
      }
  return g_ascii_strdown (architecture, (gssize) size);
}
