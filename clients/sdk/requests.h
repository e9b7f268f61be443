// The usual requests. Everything else is set in the message itself.
#ifndef BOLE_CLIENTS_SDK_REQUESTS_H_
#define BOLE_CLIENTS_SDK_REQUESTS_H_

#include <string>
#include <utility>

#include "proto/bole.pb.h"

namespace bole {

// Continues `text` as it is.
inline v1::GenerateRequest TextRequest(std::string text) {
  v1::GenerateRequest request;
  request.set_text(std::move(text));
  return request;
}

// Appends a message to `chat`; the usual roles are system, user and assistant.
inline void AddMessage(std::string role, std::string content,
                       v1::ChatInput& chat) {
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role(std::move(role));
  message.set_content(std::move(content));
}

// The next turn of a conversation, which the model's chat template renders.
inline v1::GenerateRequest ChatRequest(v1::ChatInput chat) {
  v1::GenerateRequest request;
  *request.mutable_chat() = std::move(chat);
  return request;
}

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_REQUESTS_H_
