import Numbers

extension ServerLoop {
    /// The `apns-id` of an answer: the request's, or a new one.
    func identifier(of slot: UnsafeMutablePointer<RequestSlot>) -> UnsafeRawBufferPointer {
        if slot.pointee.head.identifierBytes == 0 {
            writeUUID(to: slot.pointee.memory[RequestMemory.identifier])
            slot.pointee.head.identifierBytes = uuidBytes
        }
        return slot.pointee.memory.prefix(slot.pointee.head.identifierBytes, of: RequestMemory.identifier)
    }

    /// The `apns-unique-id` of an answer. It is written over the request's topic, which is no longer needed.
    func uniqueIdentifier(of slot: UnsafeMutablePointer<RequestSlot>) -> UnsafeRawBufferPointer {
        writeUUID(to: slot.pointee.memory[RequestMemory.topic])
        return slot.pointee.memory.prefix(uuidBytes, of: RequestMemory.topic)
    }

    /// A random UUID, version 4 (RFC 9562 §5.4).
    private func writeUUID(to memory: UnsafeMutableRawBufferPointer) {
        let digits: StaticString = "0123456789abcdef"
        var (bits, left) = (random.next(), 16)
        for index in 0..<uuidBytes {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                memory[index] = UInt8(ascii: "-")
                continue
            }
            if left == 0 { (bits, left) = (random.next(), 16) }
            var digit = Int(bits & 15)
            if index == 14 { digit = 4 }
            if index == 19 { digit = digit & 3 | 8 }
            memory[index] = digits.utf8Start[digit]
            bits >>= 4
            left -= 1
        }
    }
}

private let uuidBytes = 36

/// Writes `{"reason":"…"}` into the request's memory. For a 410 it adds the time since when the token is invalid.
func writeAnswerBody(_ slot: UnsafeMutablePointer<RequestSlot>) {
    let region = slot.pointee.memory[RequestMemory.answer]
    var count = 0
    func append(_ byte: UInt8) {
        region[count] = byte
        count += 1
    }
    if let oddity = slot.pointee.oddity {
        oddity.body.withUTF8Buffer { bytes in
            for byte in bytes { append(byte) }
        }
        slot.pointee.answerBytes = count
        return
    }
    let isInTwoWords = slot.pointee.head.isOfChannels && slot.pointee.reason == .serviceUnavailable
    let body = isInTwoWords ? serviceUnavailableOfChannels : answerBodies[Int(slot.pointee.reason.rawValue)]
    for byte in body { append(byte) }
    if slot.pointee.reason.status == 410 {
        for byte in ",\"timestamp\":\(slot.pointee.tokenRetiredAtMilliseconds)".utf8 { append(byte) }
    }
    append(UInt8(ascii: "}"))
    slot.pointee.answerBytes = count
}
