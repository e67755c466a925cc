import Numbers

extension ServerLoop {
    /// Returns the `apns-id` of a response, or the `apns-request-id` of a response about channels. If the request has
    /// no valid id, makes a new one.
    func ensureIdentifier(of slot: UnsafeMutablePointer<RequestSlot>) -> UnsafeRawBufferPointer {
        if slot.pointee.head.identifierByteCount == 0 {
            writeUUID(to: slot.pointee.memory[RequestMemory.identifierByteRange])
            slot.pointee.head.identifierByteCount = Hexadecimal.uuidTextByteCount
        }
        return slot.pointee.memory.prefix(slot.pointee.head.identifierByteCount, of: RequestMemory.identifierByteRange)
    }

    /// Makes the `apns-unique-id` of a response, and returns it. The id overwrites the request's topic, which is no
    /// longer needed.
    func writeUniqueIdentifier(of slot: UnsafeMutablePointer<RequestSlot>) -> UnsafeRawBufferPointer {
        writeUUID(to: slot.pointee.memory[RequestMemory.topicByteRange])
        return slot.pointee.memory.prefix(Hexadecimal.uuidTextByteCount, of: RequestMemory.topicByteRange)
    }

    /// Writes a random UUID, version 4 (RFC 9562 §5.4).
    private func writeUUID(to memory: UnsafeMutableRawBufferPointer) {
        let identifier = random.nextUUID()
        memory.withMemoryRebound(to: UInt8.self) { text in
            guard let start = text.baseAddress else { return }
            Hexadecimal.writeUUID(identifier, to: start)
        }
    }
}

/// Writes the body of a response with an error into the request's memory: `{"reason":"…"}`, or the body of an
/// ``UndocumentedResponse``, which Apple does not describe. A 410 also has the time when the token became invalid.
func writeResponseBody(_ slot: UnsafeMutablePointer<RequestSlot>) {
    let region = slot.pointee.memory[RequestMemory.responseByteRange]
    var count = 0
    func append(_ byte: UInt8) {
        region[count] = byte
        count += 1
    }
    if let undocumented = slot.pointee.undocumentedResponse {
        undocumented.body.withUTF8Buffer { bytes in
            for byte in bytes { append(byte) }
        }
        slot.pointee.responseByteCount = count
        return
    }
    let usesChannelSpelling = slot.pointee.head.concernsChannels && slot.pointee.response == .serviceUnavailable
    let body =
        usesChannelSpelling
        ? channelServiceUnavailableBodyStart : responseBodyStarts[Int(slot.pointee.response.rawValue)]
    for byte in body { append(byte) }
    if slot.pointee.response.status == 410 {
        for byte in ",\"timestamp\":\(slot.pointee.tokenRetiredAtWallMilliseconds)".utf8 { append(byte) }
    }
    append(UInt8(ascii: "}"))
    slot.pointee.responseByteCount = count
}
