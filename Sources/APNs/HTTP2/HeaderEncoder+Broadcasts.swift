import Numbers

/// Writes the header blocks of broadcasts. A broadcast has a channel instead of a topic, and `apns-request-id` instead
/// of `apns-id`. The encoder uses the table entries of pushes here, but adds none and caches nothing, because a channel
/// has at most one broadcast a second.
extension HeaderEncoder {
    /// Writes the header block of one broadcast.
    ///
    /// - Parameter output: has room for `blockBytesMax` bytes.
    /// - Returns: the number of bytes written.
    mutating func writeBroadcast(
        to output: UnsafeMutableRawPointer,
        channel: UnsafeRawBufferPointer,
        priority: UInt8,
        expirationSeconds: Int64,
        identifier: (UInt64, UInt64)
    ) -> Int {
        precondition(channel.count <= PushRequest.channelIdentifierBytesMax)
        var block = takeTableSizeUpdates()
        Self.appendInteger(Self.postMethodStaticIndex, flags: Self.indexedFieldPattern, prefixBits: 7, to: &block)
        Self.appendInteger(Self.httpsSchemeStaticIndex, flags: Self.indexedFieldPattern, prefixBits: 7, to: &block)
        appendIndexedOrLiteral(.authority, to: &block)
        Self.appendInteger(Self.pathNameStaticIndex, flags: Self.neverIndexedPattern, prefixBits: 4, to: &block)
        Self.append(string: broadcastPath, to: &block)
        Self.appendInteger(Field.authorization.staticIndex, flags: Self.neverIndexedPattern, prefixBits: 4, to: &block)
        Self.append(string: authorization, to: &block)
        appendIndexedOrLiteral(.pushType, to: &block)
        Self.append(name: "apns-channel-id", to: &block)
        Self.append(string: Array(channel), to: &block)
        appendIndexedOrLiteral(priority == 10 ? .priority10 : .priority5, to: &block)
        Self.append(name: "apns-expiration", to: &block)
        Self.append(string: Array(String(expirationSeconds).utf8), to: &block)
        Self.append(name: "apns-request-id", to: &block)
        let identifierText = [UInt8](unsafeUninitializedCapacity: Hexadecimal.uuidTextByteCount) { room, count in
            if let start = room.baseAddress { Hexadecimal.writeUUID(identifier, to: start) }
            count = Hexadecimal.uuidTextByteCount
        }
        Self.append(string: identifierText, to: &block)
        precondition(block.count <= blockBytesMax)
        UnsafeMutableRawBufferPointer(start: output, count: block.count).copyBytes(from: block)
        return block.count
    }

    /// Appends a field by its index if an earlier push has put it into the table. Otherwise appends a literal, which
    /// does not change the table.
    private func appendIndexedOrLiteral(_ field: Field, to block: inout [UInt8]) {
        guard insertionNumbers[field.rawValue] < 0 else {
            return Self.appendInteger(tableIndex(field), flags: Self.indexedFieldPattern, prefixBits: 7, to: &block)
        }
        if field.staticIndex > 0 {
            Self.appendInteger(field.staticIndex, flags: Self.neverIndexedPattern, prefixBits: 4, to: &block)
        } else {
            Self.append(name: field.name, to: &block)
        }
        Self.append(string: fieldValues[field.rawValue], to: &block)
    }

    /// Appends the beginning of a literal, before its value: a byte that keeps the peer from putting the field into a
    /// table, and the name.
    private static func append(name: StaticString, to block: inout [UInt8]) {
        appendInteger(0, flags: neverIndexedPattern, prefixBits: 4, to: &block)
        append(string: Array(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)), to: &block)
    }
}
