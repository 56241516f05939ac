# The layers of src/, bottom first, and which way knowledge points.
# A layer may include itself, what it USES, and what those use; every layer may include base and
# telemetry. TEST_USES is what its tests may include on top. tests/layering checks every #include
# against these lines. Two layers that share a folder are told apart by FILES, first claim wins.

add_layer(base      LIBS third_party_fmt third_party_sodium Threads::Threads)
add_layer(telemetry USES base)

add_layer(ir        USES base telemetry)
add_layer(reference USES ir)
add_layer(import    USES ir reference LIBS rtx_onnx_proto)
add_layer(fuse      USES ir TEST_USES reference import)

# The lists of backends are the only files that know which there are; only tools and tests include them.
add_layer(all_compile  FOLDER backend FILES all_compile* USES cpu_compile cuda_compile emulator_compile null_backend)
add_layer(all_device   FOLDER backend FILES all_device*  USES cpu_device cuda_device emulator_device null_backend)
add_layer(conformance  FOLDER backend/conformance USES backend codegen)
add_layer(cpu_compile  FOLDER backend/cpu FILES compile* dialect* prelude*
                       USES codegen TEST_USES cpu_device conformance reference)
add_layer(cpu_device   FOLDER backend/cpu USES backend TEST_USES cpu_compile conformance)
# Both sides of CUDA know an arch by one table; the device side links no compiler.
add_layer(cuda_caps    FOLDER backend/cuda FILES caps* cubin* USES backend)
add_layer(cuda_compile FOLDER backend/cuda FILES compile* dialect* prelude* nvrtc* USES codegen cuda_caps)
add_layer(cuda_device  FOLDER backend/cuda USES backend cuda_caps TEST_USES cuda_compile conformance reference runtime)
# The emulator runs CUDA's texts on the CPU: the CPU's compiler and pool of threads, CUDA's table of arches.
add_layer(emulator_caps    FOLDER backend/emulator FILES caps* prelude_abi* USES cpu_device cuda_caps)
add_layer(emulator_compile FOLDER backend/emulator FILES compile* dialect* prelude* USES codegen cpu_compile cuda_compile emulator_caps)
add_layer(emulator_device  FOLDER backend/emulator USES backend emulator_caps cpu_device
                           TEST_USES emulator_compile conformance)
add_layer(null_backend FOLDER backend/null USES codegen TEST_USES conformance)
add_layer(backend      USES ir LIBS ${CMAKE_DL_LIBS})

add_layer(codegen   USES ir backend LIBS rtx_embedded TEST_USES cpu_compile cpu_device null_backend)
add_layer(kernels   USES fuse codegen
                    TEST_USES reference validate measure cpu_compile cpu_device cuda_compile null_backend import all_compile all_device)
add_layer(validate  USES ir reference backend TEST_USES null_backend cpu_compile cpu_device)
add_layer(measure   USES validate backend TEST_USES null_backend cpu_compile cpu_device)
add_layer(profile   USES measure TEST_USES null_backend cpu_device)
add_layer(cache     USES base telemetry)
add_layer(tune      USES kernels measure cache validate reference profile
                    TEST_USES null_backend cpu_compile cpu_device import)
add_layer(bundle    USES backend LIBS rtx_bundle_schema third_party_zstd TEST_USES null_backend cpu_device)
# The runtime links the CPU's device side and knows it only as backend/embedded.h.
add_layer(runtime   USES bundle backend LIBS rtx_cpu_device)
add_layer(compiler  USES import kernels tune bundle fuse reference codegen backend validate measure cache runtime
                    TEST_USES all_compile all_device)

rtx_write_layer_data()
