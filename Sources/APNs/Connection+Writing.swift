import Reactor

/// Writes frames. The first frames of a push are written by ``submit(_:)`` itself.
extension Connection {
    func writeFrame(
        _ type: UInt8,
        flags: UInt8,
        streamIdentifier: Int32 = 0,
        payload: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) {
        guard let output = transportStream else { return }
        let count = FrameHeader.byteCount + payload.count
        let buffer = output.reserve(count)
        guard let start = buffer.baseAddress else { return }
        FrameHeader(payloadBytes: payload.count, type: type, flags: flags, streamIdentifier: streamIdentifier)
            .write(to: start)
        UnsafeMutableRawBufferPointer(rebasing: buffer[FrameHeader.byteCount..<count]).copyMemory(from: payload)
        output.commit(count)
    }

    private func writeFrame(_ type: UInt8, streamIdentifier: Int32, _ words: UInt32...) {
        words.map(\.bigEndian)
            .withUnsafeBytes {
                writeFrame(type, flags: FrameFlags.none, streamIdentifier: streamIdentifier, payload: $0)
            }
    }

    /// Writes the client's preface (RFC 9113, section 3.4), our SETTINGS, and a larger window for the
    /// connection.
    func writePreface() {
        guard let output = transportStream else { return }
        let magic: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        output.write(UnsafeRawBufferPointer(start: magic.utf8Start, count: magic.utf8CodeUnitCount))
        var payload: [UInt8] = []
        for (setting, value) in [
            (SettingIdentifier.enablePush, UInt32(0)),
            (SettingIdentifier.headerListSizeMax, UInt32(ResponseHead.headerListBytesMax)),
            // We give streams no priorities (RFC 9218, section 2.1).
            (SettingIdentifier.noRFC7540Priorities, 1),
        ] {
            withUnsafeBytes(of: setting.bigEndian) { payload += $0 }
            withUnsafeBytes(of: value.bigEndian) { payload += $0 }
        }
        payload.withUnsafeBytes { writeFrame(FrameType.settings, flags: FrameFlags.none, payload: $0) }
        writeWindowUpdate(ConnectionLimits.receiveWindowBytes - 65_535)
    }

    func writeWindowUpdate(_ byteCount: Int) {
        writeFrame(FrameType.windowUpdate, streamIdentifier: 0, UInt32(truncatingIfNeeded: byteCount))
    }

    func writeReset(_ streamIdentifier: Int32, _ code: ErrorCode) {
        writeFrame(FrameType.resetStream, streamIdentifier: streamIdentifier, code.rawValue)
    }

    /// Sends a PING, and closes the connection if the peer does not acknowledge it in time. Does nothing while an
    /// earlier PING is unacknowledged.
    func sendPing(timeoutMilliseconds: Int64) {
        guard phase != .closed, !isScheduled(.pingTimeout) else { return }
        var data: UInt64 = 0
        withUnsafeBytes(of: &data) { writeFrame(FrameType.ping, flags: FrameFlags.none, payload: $0) }
        schedule(.pingTimeout, afterMilliseconds: timeoutMilliseconds)
    }

    /// Writes a GOAWAY. The frame names 0 as the last stream, because the server has opened no stream.
    func writeGoAway(_ code: ErrorCode) {
        writeFrame(FrameType.goAway, streamIdentifier: 0, 0, code.rawValue)
    }
}
