"""Names of kernels as profilers write them, from traces and issues that users published, with what they are.

Long arguments of templates are cut. Kinds: P product, V product of a matrix and a vector, S the same to each
element in order, X in another order, R reduction, C collective, O other. Precisions: f float32, t TF32, h half, n narrow,
d float64, ? not told.
"""

# ruff: noqa: E501 (names are as long as they are)
NAMES = """
P f ampere_sgemm_128x64_tn
P f ampere_sgemm_128x128_nn
P f ampere_sgemm_32x128_tn
P f ampere_sgemm_32x32_sliced1x4_tn
P f ampere_sgemm_64x32_sliced1x4_nn
P f volta_sgemm_128x128_tn
P f volta_sgemm_32x128_nt
P f turing_sgemm_64x64_nn
P f maxwell_sgemm_128x64_nn
P f sgemm_128x128x8_NN_vec
P h volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn
P h volta_h884gemm_256x128_ldg8_nn
P h turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn
P h turing_h1688gemm_128x128_ldg8_stages_32x1_tn
P h ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn
P h ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_nn
P h ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn
P h ampere_h16816gemm_128x128_ldg8_stages_64x3_tn
P h maxwell_fp16_sgemm_fp16_128x32_nn
P t ampere_s1688gemm_128x128_ldg4_stages_32x3_tn
P n turing_int8_i8816gemm_int8_128x128_ldg16_relu_stages_64x1_tn
P d volta_dgemm_64x64_nn
P d cutlass_tensorop_d884gemm_128x128_16x3_nn_align1
P ? volta_cgemm_32x32_tn
P ? volta_gcgemm_32x32_nt
P ? void gemmSN_TN_kernel<float2, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<float2 const>>
P f void gemmSN_NN_kernel<float, 256, 4, 2, 8, 4, 4, false, cublasGemvTensorStridedBatched<float const>>(cublasGemmSmallNParams)
P h void magma_sgemmEx_kernel<float, __half, __half, true, false, 6, 4, 6, 3, 4>(int, int, int)
V f void gemmk1_kernel<int, float, 256, 5, true, false, false, false, cublasGemvTensorStridedBatched<float const>>
V f void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false, cublasGemvParamsEx>
V f void gemv2N_kernel<int, int, float, float, float, float, 128, 2, 4, 4, 1, false, cublasGemvParamsEx>
V h void gemvNSP_kernel<__half, __half, __half, float, 1, 32, 4, 1024, cublasGemvParamsEx>
V h std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half, __half, __half, float, false, true, false, false, 7, false, cublasGemvParamsEx>
V h void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 1>(int, int, int, int, int, int, __hip_bfloat16 const*)
V h void LLGemm1_kernel<__half, 4>(__half const*, __half const*, __half*, int)
V ? void mul_mat_vec_q<(ggml_type)12, 1, false, false>(void const*, void const*)
R f void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float const>>>
R f void reduce_1Block_kernel<float, 128, 7, cublasGemvTensorStridedBatched<float>>
R f void splitKreduce_kernel<32, 16, int, float, float, float, float, true, true, false>(cublasSplitKParams<float>)
R h void splitKreduce_kernel<32, 16, int, __half, __half, float, __half, true, false, false>(cublasSplitKParams<__half>)
R h void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, false, true, false>
P h nvjet_tst_64x64_64x16_1x4_h_bz_TNT
P h nvjet_tst_128x256_64x6_2x1_2cta_v_bz_TNT
P h nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN
P h nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NTN
P h nvjet_hsh_128x128_64x6_2x1_v_bz_TNN
P h nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTN
P h nvjet_hss_64x32_64x16_1x2_h_bz_splitK_TNT
P h nvjet_sm100_tst_64x32_64x16_2x1_2cta_h_bz_TNT
P h nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_TNT
P h nvjet_sm90_tst_mma_64x32x64_7_64x32x64_tmaAB_bz_TNNN
P h nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN
P n nvjet_qqtst_128x128_128x6_1x2_h_bz_TNT
P n nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT
P t nvjet_sss_128x64_32x8_1x2_h_bz_TNN
P t sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x32_stage3_warpsize2x2x1_tensor16x8x8_kernel
P f sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas
P h sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x16_kernel
P h sm80_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize96x64x32_stage4_warpsize2x2x1_tensor16x8x16_kernel
P h sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas
P n sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128_stage4_warpsize2x2x1_tensor16x8x32_kernel
P n sm90_xmma_gemm_i8i32_i8i32_i32_tn_n_tilesize64x64x128_int8_kernel
P t sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn
P t sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x64x32_stage5_kernel_cudnn
P h sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x64_stage3_warpsize2x2x1_g1_tensor16x8x16_kernel
P h sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_stage4_kernel
P h sm90_xmma_dgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel
P h sm86_xmma_fprop_implicit_gemm_interleaved_f16f16_f16_f16_nchw_kernel
P t void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4::Params)
P f void cutlass::Kernel<cutlass_80_simt_sgemm_256x128_8x4_tn_align1>(cutlass_80_simt_sgemm_256x128_8x4_tn_align1::Params)
P f void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nt_align1>(cutlass_80_simt_sgemm_64x64_8x5_nt_align1::Params)
P h void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x128_32x3_nn_align8>(cutlass_80_tensorop_f16_s16816gemm::Params)
P h void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(Params)
P h cutlass_80_tensorop_f16_s16816gemm_f16_256x128_32x3_nn_align8
P h cutlass_tensorop_bf16_s16816gemm_bf16_128x128_64x3_nt_align8
P h cutlass_70_tensorop_f16_s884gemm_f16_256x128_32x2_tn_align8
P t cutlass_tensorop_s1688fprop_optimized_tf32_64x64_16x10_nhwc_align4
P h cutlass_tensorop_f16_s16816fprop_optimized_f16_128x128_32x5_nhwc_align8
P t void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_64x64_16x10_nhwc_align4>(Params)
P h void cutlass__5x_cudnn::Kernel<cutlass_tensorop_f16_s16816dgrad_optimized_f16_64x128_32x6_nhwc_unity_stride_align8>
P h void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::bfloat16_t>>>
P n void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::float_e4m3_t>>>
P h cutlass3x_sm100_tensorop_s256x128x16gemm_bf16_bf16_f32_bf16_bf16_256x128x64_0x0x1_0_tnn_align8_2sm
P n cutlass_tensorop_i8816gemm_s8_256x128_64x2_tn_align16
P n cutlass_tensorop_s8_i16832gemm_s8_256x128_64x3_tn_align16
P h void cutlass::Kernel<MarlinKernel<cutlass::half_t>>(Params)
P f volta_scudnn_128x64_relu_interior_nn_v1
P f volta_scudnn_128x128_relu_interior_nn_v1
P f volta_scudnn_128x64_relu_medium_nn_v1
P f volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1
P f _5x_cudnn_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1
P f maxwell_scudnn_128x128_relu_interior_nn_v1
P f maxwell_scudnn_winograd_128x128_ldg1_ldg4_tile150x150
P f turing_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1
P f volta_scudnn_128x64_stridedB_splitK_small_nn_v1
P f volta_scudnn_128x32_3dconv_fprop_small_nn_v1
P h volta_fp16_s884cudnn_fp16_256x128_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1
P h turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_medium_nhwc_gelu_tn_v1
P h volta_h884cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1
P f void implicit_convolve_sgemm<float, float, 128, 6, 7, 3, 3, 5, 1, false, false, true>(int, int, int, float const*, int, float*)
P f void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, true, false, true>(int, int, int, float const*)
P f void precomputed_convolve_sgemm<float, 512, 6, 8, 3, 3, 5, 1, false>(int, int, int, float const*)
P f void explicit_convolve_sgemm<float, int, 128, 5, 5, 3, 3, 3, 0, false>(int, int, int, float const*)
P f void implicit_convolveNd_sgemm<float, 3, float, float, 128, 5, 5, 3, 3, 3, 1, true, false, true>
P f void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int, int, int, float const*, int, float*)
P f void cudnn::detail::wgrad_alg1_engine<float, 128, 5, 5, 3, 3, 3, false, true>(int, int, int, float const*)
P f void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int, int, float const*)
P h void wgrad_alg1_engine_NHWC<__half, 128, 5, 5, 3, 3, 3, false, true>
P f void cudnn::winograd_nonfused::winogradForwardOutput4x4<float, float>(cudnn::winograd_nonfused::WinogradOutputParams<float, float>)
P h void conv2d_c1_k1_nchw_hw_packed_kernel<__half, float, 3>(cudnnTensorStruct, __half const*)
P f void conv2d_grouped_direct_kernel<float, float, float, float, float, true, false, 0, 0, 0>(cudnnTensorStruct)
O f void cudnn::winograd::generateWinogradTilesKernel<0, float, float>(cudnn::winograd::GenerateWinogradTilesParams<float, float>)
O ? cudnn::gemm::computeOffsetsKernel(cudnn::gemm::ComputeOffsetsParams)
O ? void cask_cudnn::computeOffsetsKernel<false, false>(cask_cudnn::ComputeOffsetsParams)
O ? void cudnn::cnn::kern_precompute_indices_computeOffsets<false>
S h void cudnn::ops::convertTensor_kernel<float, __half, float, (cudnnKernelDataType_t)0>(float, float const*, __half*)
S h void nchwToNhwcKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>(cudnn::ops::nchw2nhwc_params_t<float>)
S f void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>
S h void cudnn::ops::nhwcToNchwKernel<__half, __half, float, true, false, (cudnnKernelDataType_t)0>
S h void nhwcAddPaddingKernel<__half, __half, float, true, (cudnnKernelDataType_t)0>
S f void cudnn::ops::nchwAddPaddingKernel<float, float>
S f void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float, float, cudnnTensorStruct, float const*)
R f void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1, true>(cudnnTensorStruct, float const*)
R h void cudnn::batchnorm_bwtr_nhwc_semiPersist<__half, 3, 1, 2, 0>(cudnnTensorStruct)
R f void cudnn::pooling_fw_4d_kernel<float, float, cudnn::maxpooling_func<float, (cudnnNanPropagation_t)0>, 0, false>
R f void cudnn::ops::pooling_bw_kernel_max<float, float>
R f sm50_xmma_pooling_max_fp32_nhwc
S f void op_generic_tensor_kernel<3, float, float, float, 256, (cudnnGenericOp_t)0, (cudnnNanPropagation_t)0, 0>
S f void cudnn::op_tensor4d_kernel<float, float, 256>(cudnnTensorStruct)
R f void cudnn::softmax_fw_channel_4d_kernel<float, float, 256, 1, 32, 0, 1>
P ? void RNN_blockPersist_fp_LSTM<float16, float16>
S h void LSTM_elementWise_fp<__half, __half, float, (cudnnRNNBiasMode_t)2>
S f elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>
P h cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0
P h cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1
P h cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x128_4x1x1_kernel0_0
P ? void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false>>
P h void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 32, 4, false, false, cutlass::bfloat16_t>, false, true, false>
P h void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::half_t>>
R h void pytorch_flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::half_t>, 4, 1, true>
P h void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::half_t>>
R h void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::half_t>>
P h void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>>, cutlass::bfloat16_t>>>>
P f fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)
P h fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80, true>::Params)
P h fmha_cutlassB_f16_aligned_64x64_k64_dropout_sm80(AttentionBackwardKernel<cutlass::arch::Sm80, cutlass::half_t, true, true>::Params)
P f fmha_cutlassB_f32_aligned_64x64_k64_sm80(AttentionBackwardKernel)
P h fmha_v2_flash_attention_fp16_128_64_S_128_sm80_kernel_nl
P h fmhaSm100fKernel_QkvBfloat16OBfloat16HQk192HV128SeparateQkvCausalVarSeqQ128Kv128PersistentContext
P h void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<128, 1, 8, __nv_bfloat16>>
P h void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u, 8u, 16u, 1u, __half>
P ? _fwd_kernel
P ? _fwd_grouped_kernel_stage1
P ? _attn_fwd
P ? _bwd_kernel_dk_dv
P ? kernel_unified_attention_2d
P ? kernel_paged_attention_2d
P h void vllm::paged_attention_v1_kernel<unsigned short, unsigned short, 128, 16, 128, (vllm::Fp16KVCacheDataType)0, false>
P h void vllm::paged_attention_v2_kernel<__nv_bfloat16, __nv_bfloat16, 128, 16, 128>
P ? triton_tem_fused_addmm_2
P ? triton_tem_fused_mm_0
P ? triton_tem_fused_bmm_7
P ? triton_tem_fused__to_copy_addmm_gelu_t_view_9
P ? triton_tem_fused_flex_attention_backward_split_transpose_3
P ? triton_tem_fused__to_copy_convolution_repeat_unsqueeze_view_2
P ? triton_mm
P ? triton_bmm_0
P ? triton_flex_attention
S ? triton_poi_fused_convolution_relu_0
S ? triton_poi_fused_convolution_backward_native_batch_norm_backward_threshold_backward_60
S ? triton_poi_fused_max_pool2d_with_indices_2
S ? triton_poi_fused_add_clone_mul_1
S ? triton_poi_fused_argmax_0
S ? triton_poi_fused_constant_pad_nd_2
S ? triton_poi_fused_mul_rocm_unquantized_gemm_silu_slice_3.kd
S ? triton_poi_fused_add_all_reduce_4
S ? triton_poi_fused_cat_index_select_sort_3
S ? triton_for_fused_0
R ? triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_4
R ? triton_red_fused_native_layer_norm_addmm_0
R ? triton_per_fused__softmax_bmm_div_1
R ? triton_per_fused_2
P ? fused_moe_kernel
P ? fused_moe_kernel_gptq_awq
P n _w8a8_block_fp8_matmul
P ? matmul_kernel
P ? mm_kernel_general_host_tma
P ? addmm_kernel
P ? _scaled_mm_kernel
P n _gemm_a8w8_blockscale_kernel_GROUP_K_128_GROUP_N_128
P h void marlin::Marlin<__nv_bfloat16, 1125899907892224l, 256, 1, 8, 8, false, 4, 8, false>
P n void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 64u, 128u, 128u, 1u, 5u>(__nv_bfloat16*)
P ? void gptq_marlin_moe_kernel<256, 1, 8, 8>
O ? void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*, int*, int*)
O ? void sgl_moe_sort_kernel
O ? void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, int>(float const*)
R h void vllm::rms_norm_kernel<c10::BFloat16, 8, 2, true>(c10::BFloat16*, c10::BFloat16 const*, long)
R h std::enable_if<true, void>::type vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*, c10::Half*)
S h void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>
X h void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*)
X h void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (vllm::Fp16KVCacheDataType)0>
S n void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn>
S n per_token_group_quant_8bit_kernel<__nv_bfloat16, c10::Float8_e4m3fn>
P f Cijk_Ailk_Bljk_SB_MT16x16x16_SE_AF0EM1_AMAS2_ASEM1_BL0_DTL0_EPS0_FL0_GRVW2_GSU1_ISA000_K1_KLS_LPA0
P f Cijk_Alik_Bljk_SB_MT128x64x16_MI32x32x1x2_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM1
P f Cijk_Alik_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT208x256x32_MI16x16x1
P h Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_1LDSB0_APM1_ABV0_ACED0_AF0EM1_AF1EM1
P h Cijk_Alik_Bljk_HHS_MT128x128x32_MI16x16x16x1
P h Cijk_Ailk_Bljk_HSS_MT96x96x32_MI16x16x1
P h Cijk_Ailk_Bljk_HB_MT64x64x16_SE
P h Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN_LDSB0_AFC0
P h Cijk_Ailk_Bljk_BBS_BH_Bias_AS_SAV_MT16x16x16_GSU1_GSUAMB_WGM1
P h Cijk_Alik_Bljk_BBH_MT32x16x4_SE_AMAS3_BW_DTL0_BL1_DRB16_ALT_KME0
P d Cijk_Ailk_Bljk_DB_MT64x64x8_SE
P n Cijk_Alik_Bljk_F8B8BS_BH_Bias_SHB_HA_S_SAB_SAV_UserArgs_MT256x256x128
R ? Cijk_S_GA_PostGSU8_BBS
P ? miopenSp3AsmConv_v30_3_1_gfx11_f2x3_stride1
P f miopenSp3AsmConv_v21_1_3_gfx9_fp32_f2x3_stride1
P h miopenSp3AsmConv_Ultra_v1_0_14_gfx10_fp16_pk_stride1
P ? miopenSp3AsmConvFury_v2_4_1_gfx11_1536vgprs_f2x3_fp16_fp16acc_stride1
P f igemm_fwd_gtcx_nhwc_fp32_bx0_ex0_bt128x128x16_wt32x32x2_ws1x1_wr2x2_ta1x4x2x1_1x4x1x64
P h igemm_fwd_gtcx3_nhwc_bf16_bx0_ex0_bt256x128x32_wt32x32x8_ws2x1_wr2x2
P h naive_conv_ab_nonpacked_fwd_nchw_ushort_double_ushort.kd
P f naive_conv_ab_nonpacked_wrw_nchw_float_double_float.kd
P n naive_conv_ab_nonpacked_fwd_nchw_int8_t_int32_t_int8_t
P ? gridwise_convolution_implicit_gemm_v4r1_nchw_kcyx_nkhw_lds_double_buffer
P ? void ck::kernel_gemm_xdl_cshuffle_v3_multi_d<ck::GridwiseGemmMultiD_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor>>
P ? void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor, ck::tensor_layout::gemm::ColumnMajor>>
P ? void ck::tensor_operation::device::kernel_grouped_conv_fwd_multiple_abd_xdl_cshuffle<ck::GridwiseGemm>
P ? void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync>>
P n aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_32x256
P h _ZN5aiter37bf16gemm_fp32bf16_tn_32x64_pf3_splitkE.kd
P ? aiter::fmha_fwd_hd128_bf16_causal_a32_rtne_psskddv
R ? MIOpenBatchNormFwdInferSpatialEst.kd
R ? MIOpenSoftmax.kd
S ? void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)
S h void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::Half>)
S h void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >
S f void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar)::{lambda(float)#1}, at::detail::Array<char*, 2> >
S ? void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul>>(int, at::native::FillFunctor<int>)
S f void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, at::detail::Array<char*, 2>, TrivialOffsetCalculator<1, unsigned int>>
S f void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<at::native::(anonymous namespace)::OpaqueType<4u>, unsigned int, 4, 64, 64>(float*)
S ? void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<at::native::(anonymous namespace)::OpaqueType<8u>, unsigned int, 1, 128, 1>
X f void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}>(at::TensorIteratorBase&)>
X h void at::native::elementwise_kernel_manual_unroll<128, 8, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>>>
X ? void at::native::index_elementwise_kernel<128, 4, void at::native::gpu_index_kernel<void at::native::index_kernel_impl<at::native::OpaqueType<4>>(at::TensorIteratorBase&)>>
X f void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>
X ? void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)
X f void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel<true, float>>
X f void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float, float>(int, float, float, bool)
X f void at::native::im2col_kernel<float>(long, float const*, long, long, long)
O f void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, at::native::templates::cuda::uniform_and_transform<float>>
O f void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>
O f void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4>>
O ? void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<int>>
O f void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>
R f void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 7, false, false>(float*, float const*, int, int, int)
R f void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)
R h void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, c10::BFloat16 const*)
R f void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float, float const*, float*, float*)
R f void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<float, float, 32u, 1u, 32u, true, true, false>
R f void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >
R f void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::InvStd, float, float, 4>
S f void at::native::batch_norm_transform_input_channels_last_kernel<float, float, float, 4>
R f void at::native::(anonymous namespace)::max_pool_forward_nhwc<float, int>(float const*, int)
R f void at::native::(anonymous namespace)::adaptive_average_pool<float, float>(float const*, float*)
R f void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>
R f void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::DeviceScanPolicy<float>, float const*>
S f void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(at::GenericPackedTensorAccessor<float const, 4ul>)
S ? _causal_conv1d_fwd_kernel.kd
P ? chunk_gated_delta_rule_fwd_kernel_h_blockdim64.kd
P ? fused_recurrent_gated_delta_rule_packed_decode_kernel.kd
R ? _layer_norm_fwd_kernel
R ? rms_norm_kernel_fp16
C ? ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)
C h ncclDevKernel_AllGather_RING_LL_bf16
C ? ncclKernel_AllReduce_RING_LL_Sum_half(ncclWorkElem)
C h void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)
C h void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<__nv_bfloat16>
P ? _ZN17cutlass__5x_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS1_11threadblock22ImplicitGemmMultistageINS_4gemm9GemmShapeILi64ELi128ELi16EEENS4_52Conv2dWgradOutputGradientTileAccessIteratorOptimizedIfLi4E
S ? _ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEEN6detail5ArrayIPcLi3EEEEEviT0_T1_
O ? void cask_plugin__5x_cudnn::xmma__5x_cudnn::init_device_workspace_kernel<xmma__5x_cudnn::implicit_gemm::fprop::Warp_specialized_params>
X ? void at::native::(anonymous namespace)::krn_partials_per_segment<long>(long*, long const*, long const*, long)
O ? at::cuda::(anonymous namespace)::spin_kernel(long)
X f void at::native::(anonymous namespace)::compute_grad_weight_bags<float, long>(long const*, float const*, long const*)
P ? gemm_kernel
P ? gen_conv_kernel
P ? micro_sdpa
S f at::native::xpu::VectorizedElementwiseKernel<4, at::native::xpu::AddFunctor<float>, at::detail::Array<char*, 3>, TrivialOffsetCalculator<2>>
S f at::native::xpu::UnrolledElementwiseKernel<2, at::native::xpu::CopyScalarFunc<float>>
R f at::native::xpu::ReduceKernel<1, at::native::xpu::ReduceOp<float, at::native::xpu::MeanOps<float, float>>>
R h at::native::xpu::LayerNormForwardKernelFunctor<c10::BFloat16, float, float>
"""

_KINDS = {
    "P": "PRODUCT",
    "V": "VECTOR_PRODUCT",
    "S": "STREAMING",
    "X": "SCATTERED",
    "R": "REDUCING",
    "O": "OTHER",
    "C": "COLLECTIVE",
}
_PRECISIONS = {"f": "FLOAT32", "t": "TF32", "h": "HALF", "n": "NARROW", "d": "FLOAT64", "?": None}
# Name, kind and, where it tells, precision.
KERNELS = [
    (name, _KINDS[kind], _PRECISIONS[precision])
    for kind, precision, name in (line.split(" ", 2) for line in NAMES.strip().splitlines())
]
