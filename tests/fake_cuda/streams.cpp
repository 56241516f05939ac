// Streams, events and graphs.
#include "functions.h"

namespace fake {

CuResult create_stream(CuStream* stream, unsigned flags) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuStreamCreate"); code != cu_success) return code;
  auto* const made = new Stream;
  made->context = current;
  made->blocking = flags == cu_stream_blocking;
  state().streams.insert(made);
  *stream = reinterpret_cast<CuStream>(made);
  return cu_success;
}

CuResult destroy_stream(CuStream handle) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuStreamDestroy"); code != cu_success) return code;
  Stream* const stream = stream_of(handle);
  if (!handle || !stream) return cu_invalid_handle;
  (void)finish(*stream);
  state().streams.erase(stream);
  delete stream;
  return cu_success;
}

CuResult synchronize(CuStream handle) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuStreamSynchronize"); code != cu_success) return code;
  Stream* const stream = stream_of(handle);
  if (!stream) return cu_invalid_handle;
  if (stream->recorded) return stream->broken = true, cu_capture_unsupported;
  if (!handle) {
    if (const CuResult code = issue(nullptr, [] { return cu_success; }); code != cu_success) return code;
  } else if (stream->blocking) {
    (void)finish(*stream_of(nullptr));
  }
  return finish(*stream);
}

CuResult is_capturing(CuStream handle, int* status) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuStreamIsCapturing"); code != cu_success) return code;
  const Stream* const stream = stream_of(handle);
  if (!stream) return cu_invalid_handle;
  *status = !stream->recorded ? 0 : stream->broken ? 2 : 1;
  return cu_success;
}

CuResult begin_capture(CuStream handle, int mode) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuStreamBeginCapture"); code != cu_success) return code;
  Stream* const stream = stream_of(handle);
  if (!stream) return cu_invalid_handle;
  if (!handle || stream->recorded) return cu_capture_unsupported;
  (void)finish(*stream);
  stream->recorded = std::make_unique<Graph>();
  stream->mode = mode;
  stream->broken = false;
  return cu_success;
}

CuResult end_capture(CuStream handle, CuGraph* graph) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuStreamEndCapture"); code != cu_success) return code;
  Stream* const stream = stream_of(handle);
  if (!stream || !stream->recorded) return cu_invalid_handle;
  auto recorded = std::move(stream->recorded);
  *graph = nullptr;
  if (stream->broken) return cu_capture_invalidated;
  *graph = reinterpret_cast<CuGraph>(recorded.release());
  return cu_success;
}

CuResult exchange_capture_mode(int* mode) {
  ++state().counts["cuThreadExchangeStreamCaptureMode"];
  std::swap(*mode, thread_mode);
  return cu_success;
}

CuResult instantiate(CuGraphExec* made, CuGraph graph, uint64_t) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuGraphInstantiateWithFlags"); code != cu_success) return code;
  *made = reinterpret_cast<CuGraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  return cu_success;
}

CuResult launch_graph(CuGraphExec graph, CuStream stream) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuGraphLaunch"); code != cu_success) return code;
  return issue(stream, [nodes = reinterpret_cast<Graph*>(graph)->nodes]() -> CuResult {
    for (const Work& node : nodes)
      if (const CuResult code = node(); code != cu_success) return code;
    return cu_success;
  });
}

CuResult destroy_graph(CuGraph graph) {
  const std::lock_guard lock(state().mutex);
  delete reinterpret_cast<Graph*>(graph);
  return enter("cuGraphDestroy", false);
}
CuResult destroy_graph_exec(CuGraphExec graph) {
  const std::lock_guard lock(state().mutex);
  delete reinterpret_cast<Graph*>(graph);
  return enter("cuGraphExecDestroy", false);
}

CuResult create_event(CuEvent* event, unsigned) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuEventCreate"); code != cu_success) return code;
  *event = reinterpret_cast<CuEvent>(new Event);
  return cu_success;
}
CuResult destroy_event(CuEvent event) {
  const std::lock_guard lock(state().mutex);
  delete reinterpret_cast<Event*>(event);
  return enter("cuEventDestroy", false);
}
CuResult record_event(CuEvent handle, CuStream stream) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuEventRecord"); code != cu_success) return code;
  auto* const event = reinterpret_cast<Event*>(handle);
  event->stream = stream_of(stream);
  event->pending = true;
  return issue(stream, [event] { return event->seconds = now(), event->pending = false, cu_success; });
}
CuResult synchronize_event(CuEvent handle) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuEventSynchronize"); code != cu_success) return code;
  const auto* const event = reinterpret_cast<Event*>(handle);
  if (!event->stream) return cu_success;
  if (event->stream->recorded) return event->stream->broken = true, cu_capture_unsupported;
  return finish(*event->stream);
}
CuResult elapsed(float* milliseconds, CuEvent start, CuEvent end) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuEventElapsedTime"); code != cu_success) return code;
  const auto &from = *reinterpret_cast<Event*>(start), &to = *reinterpret_cast<Event*>(end);
  if (from.pending || to.pending || from.seconds < 0 || to.seconds < 0) return 600;  // CUDA_ERROR_NOT_READY
  *milliseconds = static_cast<float>((to.seconds - from.seconds) * 1e3);
  return cu_success;
}

}  // namespace fake
