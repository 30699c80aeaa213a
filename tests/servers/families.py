"""Small repositories as each family of models publishes them: the files of the real ones, with tensors of a few bytes.

`families()` maps names to Family. What their facts must be is written beside them, from the rules of the formats, not from a run."""

import json
import random
import struct
from typing import NamedTuple

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8, "I8": 8, "I32": 32, "U32": 32}
GGUF_BLOCKS = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210)}
GGUF_FILE_TYPES = {"F16": 1, "Q8_0": 7, "Q4_K_M": 15}
TOOLS = "{% for m in messages %}{% if tools %}<tools>{% endif %}{{ m.content }}{% endfor %}"


class Family(NamedTuple):
    """`facts`: of the JSON answer. `left_out`: path -> a word of the reason. `where`: behind the repository's address; `options`:
    of push. `info`: of the hub's card."""
    files: dict
    facts: dict
    left_out: dict = {}
    where: str = ""
    options: tuple = ()
    info: dict = {}


def elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def safetensors(tensors, seed=1):
    """`tensors`: name -> (dtype, shape)."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape) in tensors.items():
        size = elements(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + random.Random(seed).randbytes(offset)


def sharded(tensors, count, stem="model", suffix=".safetensors", variant=""):
    """The shards of `tensors` and their index."""
    names, shards, weight_map = list(tensors), {}, {}
    for n in range(count):
        shard = f"{stem}{variant}-{n + 1:05}-of-{count:05}{suffix}"
        part = {name: tensors[name] for name in names[n::count]}
        shards[shard] = safetensors(part, n)
        weight_map |= dict.fromkeys(part, shard)
    total = sum(elements(shape) * BITS[dtype] // 8 for dtype, shape in tensors.values())
    index = f"{stem}{suffix}.index{variant}.json"
    return {**shards, index: json_bytes({"metadata": {"total_size": total}, "weight_map": weight_map})}


def json_bytes(document):
    return json.dumps(document, indent=2).encode()


def gguf(pairs, tensors, seed=1):
    """`pairs`: key -> int, str or list of str; `tensors`: name -> (type, dims, fastest first)."""

    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def typed(value):
        if isinstance(value, str):
            return struct.pack("<I", 8) + text(value)
        if isinstance(value, list):
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
        return struct.pack("<II", 4, value)

    head, data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)), b""
    for key, value in pairs.items():
        head += text(key) + (struct.pack("<IH", 2, value) if key in ("split.no", "split.count") else typed(value))
    for name, (kind, dims) in tensors.items():
        number, block, size = GGUF_BLOCKS[kind]
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", number, len(data))
        data += random.Random(f"{seed}{name}").randbytes(elements(dims) // block * size)
        data += b"\0" * (-len(data) % 32)
    return head + b"\0" * (-len(head) % 32) + data


def decoder(hidden=32, ffn=64, layers=2, vocab=128, kv=16, dtype="BF16", head=True):
    """Tensors of a Llama-like decoder."""
    tensors = {"model.embed_tokens.weight": (dtype, [vocab, hidden])}
    for n in range(layers):
        at = f"model.layers.{n}."
        tensors |= {f"{at}self_attn.q_proj.weight": (dtype, [hidden, hidden]), f"{at}self_attn.k_proj.weight": (dtype, [kv, hidden]),
                    f"{at}self_attn.v_proj.weight": (dtype, [kv, hidden]), f"{at}self_attn.o_proj.weight": (dtype, [hidden, hidden]),
                    f"{at}mlp.gate_proj.weight": (dtype, [ffn, hidden]), f"{at}mlp.up_proj.weight": (dtype, [ffn, hidden]),
                    f"{at}mlp.down_proj.weight": (dtype, [hidden, ffn]), f"{at}input_layernorm.weight": (dtype, [hidden]),
                    f"{at}post_attention_layernorm.weight": (dtype, [hidden])}
    tensors["model.norm.weight"] = (dtype, [hidden])
    return {**tensors, **({"lm_head.weight": (dtype, [vocab, hidden])} if head else {})}


def count(tensors):
    return sum(elements(shape) for _, shape in tensors.values())


def config(architecture, model_type, **more):
    return json_bytes({"architectures": [architecture], "model_type": model_type, "hidden_size": 32, "intermediate_size": 64,
                       "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, **more})


def tokenizer(template=None, limit=10**30):
    inside = {"model_max_length": limit, **({"chat_template": template} if template else {})}
    return {"tokenizer.json": b'{"version": "1.0"}', "tokenizer_config.json": json_bytes(inside), "special_tokens_map.json": b"{}",
            "generation_config.json": b"{}"}


CARD = {"README.md": b"# A model\n", ".gitattributes": b"*.safetensors filter=lfs\n", "LICENSE": b"Apache\n"}
CHAT = ["Chat", "TextGeneration"]


def llama():
    tensors = decoder()
    files = {"config.json": config("LlamaForCausalLM", "llama", max_position_embeddings=131072, torch_dtype="bfloat16", rope_scaling={
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})}
    files |= {**CARD, **tokenizer(TOOLS), **sharded(tensors, 4), "USE_POLICY.md": b"x", "original/consolidated.00.pth": b"PK\3\4",
              "original/params.json": b"{}", "original/tokenizer.model": b"x"}
    return Family(files, {"format": "Safetensors", "architecture": "LlamaForCausalLM", "family": "llama", "task": "text-generation",
                          "precision": "bfloat16", "parameterCount": count(tensors), "contextWindowTokens": 131072, "endpointTypes": CHAT,
                          "features": ["ToolCalling"], "quantization": None},
                  {"original/consolidated.00.pth": "folder", "original/params.json": "folder", "README.md": "documentation", "LICENSE": "documentation",
                   "original/tokenizer.model": "folder", "USE_POLICY.md": "documentation"}, info={"pipeline_tag": "text-generation"})


def qwen():
    tensors = decoder(head=False)  # tied
    files = {"config.json": config("Qwen3ForCausalLM", "qwen3", max_position_embeddings=40960, torch_dtype="bfloat16", head_dim=8,
                                   rope_scaling=None, sliding_window=None, use_sliding_window=False, tie_word_embeddings=True)}
    files |= {**CARD, **tokenizer(TOOLS, 131072), "vocab.json": b"{}", "merges.txt": b"", "model.safetensors": safetensors(tensors)}
    return Family(files, {"format": "Safetensors", "architecture": "Qwen3ForCausalLM", "family": "qwen3", "task": "text-generation",
                          "precision": "bfloat16", "parameterCount": count(tensors), "contextWindowTokens": 40960,
                          "features": ["ToolCalling"]}, {"README.md": "documentation", "LICENSE": "documentation"})


def mistral():
    """Both layouts of the same weights (pitfalls B38)."""
    tensors = decoder()
    files = {"config.json": config("MistralForCausalLM", "mistral", max_position_embeddings=32768, dtype="bfloat16", sliding_window=None)}
    files |= {**CARD, **tokenizer(), **sharded(tensors, 3), "consolidated.safetensors": safetensors(tensors), "params.json": b"{}",
              "tekken.json": b"{}", "tokenizer.model.v3": b"x"}
    return Family(files, {"format": "Safetensors", "architecture": "MistralForCausalLM", "family": "mistral", "task": "text-generation",
                          "precision": "bfloat16", "parameterCount": count(tensors), "contextWindowTokens": 32768, "features": []},
                  {"consolidated.safetensors": "another copy", "tokenizer.model.v3": "not needed", "README.md": "documentation", "LICENSE": "documentation"})


def gemma():
    """Of 4 billion parameters with images: what the text part leaves out is the class's own (formats-config-facts.md 5)."""
    tensors = {f"language_{name}": value for name, value in decoder(head=False).items()}
    tensors |= {"vision_tower.patch.weight": ("BF16", [16, 12]), "multi_modal_projector.weight": ("BF16", [16, 32])}
    files = {"config.json": json_bytes({
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "torch_dtype": "bfloat16",
        "text_config": {"hidden_size": 32, "intermediate_size": 64, "model_type": "gemma3_text", "num_hidden_layers": 2,
                        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
        "vision_config": {"hidden_size": 16, "image_size": 896, "model_type": "siglip_vision_model", "patch_size": 14}})}
    files |= {**CARD, **tokenizer(), **sharded(tensors, 2), "tokenizer.model": b"x", "added_tokens.json": b"{}", "preprocessor_config.json": b"{}",
              "processor_config.json": b"{}", "chat_template.json": json_bytes({"chat_template": "{{ messages }}"})}
    return Family(files, {"format": "Safetensors", "architecture": "Gemma3ForConditionalGeneration", "family": "gemma3",
                          "task": "image-text-to-text", "precision": "bfloat16", "parameterCount": count(tensors),
                          "contextWindowTokens": 131072, "endpointTypes": ["Chat", "ImageToText"],
                          "features": ["VisionInput", "MultiModalInput"]}, {"README.md": "documentation", "LICENSE": "documentation"})


def moe():
    """A mixture of experts: all of them count."""
    tensors = {name: value for name, value in decoder().items() if ".mlp." not in name}
    for layer in range(2):
        tensors[f"model.layers.{layer}.mlp.gate.weight"] = ("BF16", [8, 32])
        for expert in range(8):
            for part, shape in (("gate_proj", [16, 32]), ("up_proj", [16, 32]), ("down_proj", [32, 16])):
                tensors[f"model.layers.{layer}.mlp.experts.{expert}.{part}.weight"] = ("BF16", shape)
    files = {"config.json": config("Qwen3MoeForCausalLM", "qwen3_moe", max_position_embeddings=262144, torch_dtype="bfloat16",
                                   num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=1, mlp_only_layers=[])}
    files |= {**CARD, **tokenizer(TOOLS, 262144), **sharded(tensors, 5)}
    return Family(files, {"format": "Safetensors", "architecture": "Qwen3MoeForCausalLM", "family": "qwen3_moe", "task": "text-generation",
                          "precision": "bfloat16", "parameterCount": count(tensors), "contextWindowTokens": 262144}, {"README.md": "documentation", "LICENSE": "documentation"})


def vision_language():
    """An older file, flat at its root, whose positions are turned by "mrope" and not stretched."""
    tensors = {**decoder(), "visual.patch_embed.proj.weight": ("BF16", [16, 3, 2, 14, 14]), "visual.blocks.0.attn.qkv.weight": ("BF16", [48, 16])}
    files = {"config.json": config("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", max_position_embeddings=128000, torch_dtype="bfloat16",
                                   rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]}, vision_config={"depth": 1, "hidden_size": 16})}
    files |= {**CARD, **tokenizer(None, 131072), **sharded(tensors, 2), "preprocessor_config.json": b"{}", "video_preprocessor_config.json": b"{}",
              "chat_template.json": json_bytes({"chat_template": TOOLS}), "assets/demo.jpeg": b"\xff\xd8"}
    return Family(files, {"format": "Safetensors", "architecture": "Qwen2_5_VLForConditionalGeneration", "family": "qwen2_5_vl",
                          "task": "image-text-to-text", "parameterCount": count(tensors), "contextWindowTokens": 128000,
                          "features": ["VisionInput", "MultiModalInput", "ToolCalling"]},
                  {"assets/demo.jpeg": "folder", "README.md": "documentation", "LICENSE": "documentation"}, info={"pipeline_tag": "image-text-to-text"})


def packed(method, bits_key, qweight):
    """GPTQ and AWQ: each word of `qweight` holds eight parameters, scales and zeros are none (pitfalls B48)."""
    tensors = {"model.embed_tokens.weight": ("F16", [128, 32]), "model.norm.weight": ("F16", [32]), "lm_head.weight": ("F16", [128, 32])}
    parameters, at = count(tensors), "model.layers.0.mlp.up_proj."
    tensors |= {f"{at}qweight": ("I32", qweight), f"{at}qzeros": ("I32", [1, 8]), f"{at}scales": ("F16", [1, 64])}
    if method == "gptq":
        tensors[f"{at}g_idx"] = ("I32", [32])
    quantization = {"quant_method": method, bits_key: 4, "group_size": 128}
    files = {"config.json": config("LlamaForCausalLM", "llama", max_position_embeddings=8192, torch_dtype="float16", quantization_config=quantization)}
    files |= {**CARD, **tokenizer(), "model.safetensors": safetensors(tensors)}
    files |= {"quantize_config.json": json_bytes({"bits": 4, "group_size": 128})} if method == "gptq" else {}
    return Family(files, {"format": "Safetensors", "architecture": "LlamaForCausalLM", "family": "llama", "quantization": f"{method}-4bit",
                          "parameterCount": parameters + elements(qweight) * 8, "contextWindowTokens": 8192}, {"README.md": "documentation", "LICENSE": "documentation"})


def fp8():
    tensors = {name: ("F8_E4M3" if "_proj" in name else dtype, shape) for name, (dtype, shape) in decoder().items()}
    parameters = count(tensors)
    tensors |= {f"{name}_scale_inv": ("F32", [1, 1]) for name in list(tensors) if "_proj" in name}
    files = {"config.json": config("DeepseekV3ForCausalLM", "deepseek_v3", max_position_embeddings=163840, torch_dtype="bfloat16",
                                   rope_scaling={"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
                                   quantization_config={"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128],
                                                        "activation_scheme": "dynamic"}, auto_map={"AutoConfig": "configuration_x.C"})}
    files |= {**CARD, **tokenizer(), **sharded(tensors, 2), "configuration_x.py": b"class C: pass\n", "figures/bench.png": b"\x89PNG"}
    return Family(files, {"format": "Safetensors", "architecture": "DeepseekV3ForCausalLM", "family": "deepseek_v3", "quantization": "fp8",
                          "task": "text-generation", "parameterCount": parameters, "contextWindowTokens": 163840},
                  {"configuration_x.py": "script", "figures/bench.png": "folder", "README.md": "documentation", "LICENSE": "documentation"})


def mlx():
    """Eight parameters in each word of a module that has scales (pitfalls B47); one module has another width."""
    tensors = {"model.norm.weight": ("BF16", [32])}
    parameters = 32
    for name, (rows, words), bits in (("model.embed_tokens", (128, 4), 4), ("model.layers.0.mlp.up_proj", (64, 4), 4), ("lm_head", (128, 8), 8)):
        tensors |= {f"{name}.weight": ("U32", [rows, words]), f"{name}.scales": ("BF16", [rows, 1]), f"{name}.biases": ("BF16", [rows, 1])}
        parameters += rows * words * (32 // bits)
    quantization = {"group_size": 64, "bits": 4, "lm_head": {"group_size": 64, "bits": 8}}
    files = {"config.json": config("LlamaForCausalLM", "llama", max_position_embeddings=4096, quantization=quantization,
                                   quantization_config=quantization)}
    files |= {**CARD, **tokenizer(), "model.safetensors": safetensors(tensors),
              "model.safetensors.index.json": json_bytes({"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(tensors, "model.safetensors")})}
    return Family(files, {"format": "Safetensors", "architecture": "LlamaForCausalLM", "quantization": "4bit", "parameterCount": parameters,
                          "contextWindowTokens": 4096}, {"README.md": "documentation", "LICENSE": "documentation"})


GGUF_COUNT = 256 * 64 + 256 * 256 + 256


def gguf_file(quantization, kind, **more):
    pairs = {"general.architecture": "llama", "general.type": "model", "general.name": "Tiny", "general.size_label": "82K",
             "general.file_type": GGUF_FILE_TYPES[quantization], "general.quantization_version": 2, "llama.block_count": 1,
             "llama.context_length": 131072, "llama.embedding_length": 256, "llama.attention.head_count": 4,
             "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [f"t{n}" for n in range(64)], "tokenizer.chat_template": TOOLS}
    return gguf({**pairs, **more}, {"token_embd.weight": (kind, [256, 64]), "blk.0.attn_q.weight": (kind, [256, 256]),
                                    "output_norm.weight": ("F32", [256])}, quantization)


def gguf_quants():
    files = {**CARD, "config.json": b'{"model_type": "llama"}', "Tiny-F16.gguf": gguf_file("F16", "F16"), "Tiny-Q8_0.gguf": gguf_file("Q8_0", "Q8_0"),
             "Tiny-Q4_K_M.gguf": gguf_file("Q4_K_M", "Q4_K"), "Tiny.imatrix": b"x"}
    return files


def gguf_one():
    return Family(gguf_quants(), {"format": "GGUF", "architecture": "llama", "family": "llama", "quantization": "Q4_K_M", "task": "text-generation",
                                  "parameterCount": GGUF_COUNT, "contextWindowTokens": 131072, "features": ["ToolCalling"]},
                  where="/blob/main/Tiny-Q4_K_M.gguf")


def gguf_all():
    """Without a choice all that are there are taken, and no quantization is said to be the model's."""
    return Family(gguf_quants(), {"format": "GGUF", "architecture": "llama", "quantization": None, "parameterCount": GGUF_COUNT},
                  {"README.md": "documentation", "LICENSE": "documentation", "Tiny.imatrix": "another form"})


def gguf_split():
    """A quantization in a folder of its own, in three parts; only the first has the metadata (pitfalls C64 C65)."""
    files = {**CARD, "Q8_0/Tiny-Q8_0-00001-of-00003.gguf": gguf_file("Q8_0", "Q8_0", **{"split.no": 0, "split.count": 3, "split.tensors.count": 5}),
             "Q4_K_M/Tiny-Q4_K_M.gguf": gguf_file("Q4_K_M", "Q4_K")}
    for part in (1, 2):
        files[f"Q8_0/Tiny-Q8_0-0000{part + 1}-of-00003.gguf"] = gguf(
            {"split.no": part, "split.count": 3, "split.tensors.count": 5}, {f"blk.{part}.attn_q.weight": ("Q8_0", [256, 256])}, part)
    return Family(files, {"format": "GGUF", "architecture": "llama", "quantization": "Q8_0", "parameterCount": GGUF_COUNT + 2 * 256 * 256,
                          "contextWindowTokens": 131072}, where="/tree/main/Q8_0")


def component(*stems, config_name="config.json", dtype="F16", shape=(32, 32)):
    return {**{stem: safetensors({"w": (dtype, list(shape))}) for stem in stems}, config_name: b"{}"}


def below(folder, files):
    return {f"{folder}/{path}": data for path, data in files.items()}


TOKENIZER = {"tokenizer_config.json": b"{}", "vocab.json": b"{}", "merges.txt": b"", "special_tokens_map.json": b"{}"}


def sdxl_files():
    index = {"_class_name": "StableDiffusionXLPipeline", "_diffusers_version": "0.30.0", "force_zeros_for_empty_prompt": True,
             "scheduler": ["diffusers", "EulerDiscreteScheduler"], "text_encoder": ["transformers", "CLIPTextModel"],
             "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"], "tokenizer": ["transformers", "CLIPTokenizer"],
             "tokenizer_2": ["transformers", "CLIPTokenizer"], "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"],
             "image_encoder": [None, None]}
    files = {**CARD, "model_index.json": json_bytes(index), "sd_xl_base_1.0.safetensors": safetensors({"w": ("F16", [64, 64])}),
             "sd_xl_offset_example-lora_1.0.safetensors": safetensors({"w": ("F16", [4, 4])}), "comparison.png": b"\x89PNG"}
    for folder in ("text_encoder", "text_encoder_2"):
        files |= below(folder, component("model.safetensors", "model.fp16.safetensors")) | {f"{folder}/pytorch_model.bin": b"\x80\x02.", f"{folder}/model.onnx": b"x"}
    files |= below("unet", component("diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors", shape=(64, 64)))
    files |= below("vae", component("diffusion_pytorch_model.safetensors", "diffusion_pytorch_model.fp16.safetensors"))
    files |= below("vae_1_0", component("diffusion_pytorch_model.safetensors")) | below("scheduler", {"scheduler_config.json": b"{}"})
    files |= below("tokenizer", TOKENIZER) | below("tokenizer_2", TOKENIZER) | {"unet/diffusion_pytorch_model.bin": b"\x80\x02."}
    return files


SDXL_FACTS = {"format": "Diffusers", "architecture": "StableDiffusionXLPipeline", "family": "stable-diffusion", "task": "text-to-image",
              "parameterCount": 64 * 64, "endpointTypes": ["ImageGeneration"], "features": ["ImageOutput"]}
SDXL_LEFT_OUT = {
    "README.md": "documentation", "LICENSE": "documentation", "comparison.png": "documentation", "sd_xl_base_1.0.safetensors": "whole pipeline",
    "sd_xl_offset_example-lora_1.0.safetensors": "whole pipeline", "vae_1_0/diffusion_pytorch_model.safetensors": "does not name its folder",
    "vae_1_0/config.json": "does not name its folder", "text_encoder/pytorch_model.bin": "as safetensors", "text_encoder_2/pytorch_model.bin":
    "as safetensors", "text_encoder/model.onnx": "another form", "text_encoder_2/model.onnx": "another form",
    "unet/diffusion_pytorch_model.bin": "as safetensors"}


def in_variant(kind):
    return {path: "another variant" for path in ("text_encoder/model", "text_encoder_2/model", "unet/diffusion_pytorch_model", "vae/diffusion_pytorch_model")
            for path in [f"{path}{kind}.safetensors"]}


def sdxl():
    """Pitfalls B40: safetensors wins over .bin in each component."""
    return Family(sdxl_files(), SDXL_FACTS, {**SDXL_LEFT_OUT, **in_variant(".fp16")})


def sdxl_fp16():
    """Pitfalls B41."""
    return Family(sdxl_files(), SDXL_FACTS, {**SDXL_LEFT_OUT, **in_variant("")}, options=("--variant", "fp16"))


def flux():
    index = {"_class_name": "FluxPipeline", "_diffusers_version": "0.30.0", "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
             "text_encoder": ["transformers", "CLIPTextModel"], "text_encoder_2": ["transformers", "T5EncoderModel"],
             "tokenizer": ["transformers", "CLIPTokenizer"], "tokenizer_2": ["transformers", "T5TokenizerFast"],
             "transformer": ["diffusers", "FluxTransformer2DModel"], "vae": ["diffusers", "AutoencoderKL"]}
    blocks = {f"transformer_blocks.{n}.attn.to_q.weight": ("BF16", [32, 32]) for n in range(6)}
    files = {**CARD, "model_index.json": json_bytes(index), "flux1-dev.safetensors": safetensors({"w": ("BF16", [96, 64])}),
             "ae.safetensors": safetensors({"w": ("F32", [8, 8])}), "dev_grid.jpg": b"\xff\xd8"}
    files |= below("transformer", {"config.json": b"{}", **sharded(blocks, 3, "diffusion_pytorch_model")})
    files |= below("text_encoder", component("model.safetensors", dtype="BF16"))
    files |= below("text_encoder_2", {"config.json": b"{}", **sharded({f"encoder.{n}": ("BF16", [16, 16]) for n in range(4)}, 2)})
    files |= below("vae", component("diffusion_pytorch_model.safetensors", dtype="BF16")) | below("scheduler", {"scheduler_config.json": b"{}"})
    files |= below("tokenizer", TOKENIZER) | below("tokenizer_2", {"tokenizer_config.json": b"{}", "tokenizer.json": b"{}", "spiece.model": b"x"})
    return Family(files, {"format": "Diffusers", "architecture": "FluxPipeline", "family": "flux", "task": "text-to-image", "precision": "bfloat16",
                          "parameterCount": 6 * 32 * 32, "endpointTypes": ["ImageGeneration"]},
                  {"flux1-dev.safetensors": "whole pipeline", "ae.safetensors": "whole pipeline", "dev_grid.jpg": "documentation", "README.md": "documentation", "LICENSE": "documentation"},
                  info={"pipeline_tag": "text-to-image"})


def families():
    return {"llama": llama(), "qwen": qwen(), "mistral": mistral(), "gemma": gemma(), "moe": moe(), "vision-language": vision_language(),
            "gptq": packed("gptq", "bits", [4, 64]), "awq": packed("awq", "w_bit", [32, 8]), "fp8": fp8(), "mlx": mlx(), "gguf-one": gguf_one(),
            "gguf-all": gguf_all(), "gguf-split": gguf_split(), "sdxl": sdxl(), "sdxl-fp16": sdxl_fp16(), "flux": flux()}
