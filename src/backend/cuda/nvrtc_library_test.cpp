#include "backend/cuda/nvrtc_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cmath>

#include "base/files.h"

namespace rtx::backend::cuda {
namespace {

class NvrtcLibrary : public ::testing::Test {
 protected:
  void SetUp() override { root_ = *make_temp_directory("/tmp", "rtx-nvrtc-"); }
  void TearDown() override { remove_tree(root_); }
  NvrtcSearch only_here() const {
    NvrtcSearch search;
    search.system = root_ + "/system";
    search.loader = false;
    return search;
  }
  void put(const std::string& path, const std::string& text = "not a library") {
    ASSERT_TRUE(make_directories(path.substr(0, path.rfind('/'))).ok());
    ASSERT_TRUE(write_file_atomic(path, text).ok());
  }
  std::string root_;
};

TEST_F(NvrtcLibrary, where_there_is_none_the_error_says_where_it_was_looked_for_and_what_helps) {
  NvrtcSearch search = only_here();
  search.roots = {"", "/opt/none"};
  const auto found = find_nvrtc(search);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().exit_code(), 4);
  EXPECT_NE(found.error().why.find("/opt/none"), std::string::npos);
  EXPECT_NE(found.error().fix.find("RTX_NVRTC"), std::string::npos);
}

TEST_F(NvrtcLibrary, a_named_toolkit_comes_before_the_systems_and_a_newer_library_before_an_older) {
  put(root_ + "/system/cuda-12.8/lib64/libnvrtc.so.12");
  EXPECT_EQ(*find_nvrtc(only_here()), root_ + "/system/cuda-12.8/lib64/libnvrtc.so.12");
  put(root_ + "/system/cuda-13.10/lib64/libnvrtc.so.13");
  put(root_ + "/system/cuda-13.9/lib64/libnvrtc.so.13");
  EXPECT_EQ(*find_nvrtc(only_here()), root_ + "/system/cuda-13.10/lib64/libnvrtc.so.13");
  NvrtcSearch search = only_here();
  search.roots = {root_ + "/mine"};
  put(root_ + "/mine/lib/libnvrtc.so.12");
  EXPECT_EQ(*find_nvrtc(search), root_ + "/mine/lib/libnvrtc.so.12");
  put(root_ + "/mine/lib/libnvrtc.so.13");
  EXPECT_EQ(*find_nvrtc(search), root_ + "/mine/lib/libnvrtc.so.13");
}

TEST_F(NvrtcLibrary, a_library_named_outright_is_taken_or_refused_but_never_replaced) {
  put(root_ + "/system/cuda/lib64/libnvrtc.so.13");
  NvrtcSearch search = only_here();
  search.library = root_ + "/wheel";
  EXPECT_NE(find_nvrtc(search).error().why.find("which is not there"), std::string::npos);
  put(root_ + "/wheel/readme");
  EXPECT_NE(find_nvrtc(search).error().why.find("holds neither libnvrtc.so.13"), std::string::npos);
  put(root_ + "/wheel/libnvrtc.so.12");
  EXPECT_EQ(*find_nvrtc(search), root_ + "/wheel/libnvrtc.so.12");
}

TEST_F(NvrtcLibrary, a_file_that_is_no_library_is_refused_in_the_loaders_words) {
  put(root_ + "/libnvrtc.so.13");
  const auto opened = Nvrtc::open(root_ + "/libnvrtc.so.13");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().exit_code(), 4);
  EXPECT_NE(opened.error().why.find(root_ + "/libnvrtc.so.13"), std::string::npos) << opened.error().why;
}

// A real library under the wrong name: this process's own libm.
TEST_F(NvrtcLibrary, a_library_without_nvrtcs_symbols_is_refused_with_their_names) {
  void* libm = dlopen("libm.so.6", RTLD_NOW);
  link_map* map = nullptr;
  ASSERT_TRUE(libm && dlinfo(libm, RTLD_DI_LINKMAP, &map) == 0);
  ASSERT_EQ(symlink(map->l_name, (root_ + "/libnvrtc.so.13").c_str()), 0);
  const auto opened = Nvrtc::open(root_ + "/libnvrtc.so.13");
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().exit_code(), 4);
  EXPECT_NE(opened.error().why.find("it lacks nvrtcGetErrorString, nvrtcVersion"), std::string::npos) << opened.error().why;
}

}  // namespace
}  // namespace rtx::backend::cuda
