import CNghttp2

@testable import APNs

/// Checks the HPACK decoder. The input is a list of header blocks of one connection. The byte before a block is its
/// length; 255 means that the block has all remaining bytes. Rule: our decoder and nghttp2's read the same response,
/// or both refuse the block. Our decoder may also refuse a block that exceeds one of its limits.
func headerViolation(_ input: UnsafeRawBufferPointer) -> String? {
    var inflater: OpaquePointer?
    guard nghttp2_hd_inflate_new(&inflater) == 0 else { return nil }
    defer { nghttp2_hd_inflate_del(inflater) }
    var decoder = HeaderDecoder()
    var remainder = input
    while let first = remainder.first {
        let count = first == 255 ? remainder.count - 1 : min(Int(first), remainder.count - 1)
        let block = UnsafeRawBufferPointer(rebasing: remainder[1..<1 + count])
        remainder = UnsafeRawBufferPointer(rebasing: remainder[(1 + count)...])
        let nghttp2Head = withCopy(block) { inflate($0, inflater) }
        let ourHead = withCopy(block) { block in
            Result { () throws(ConnectionFault) in try decoder.decode(block) }
        }
        switch (ourHead, nghttp2Head) {
        case (.success(let ourHead), let nghttp2Head?):
            guard isSame(ourHead, nghttp2Head) else { return "nghttp2 reads \(nghttp2Head), ours \(ourHead)" }
        case (.success(let ourHead), nil): return "nghttp2 refuses what ours reads as \(ourHead)"
        case (.failure(let fault), let nghttp2Head?):
            // A decoder may set limits (RFC 7541, section 7.4). If a block exceeds one, our decoder's message
            // names this section.
            let exceedsLimit = fault.detail.description.hasSuffix("(RFC 7541, 7.4)")
            return exceedsLimit ? nil : "our decoder refuses the block (\(fault.detail)), nghttp2 reads \(nghttp2Head)"
        case (.failure, nil): return nil
        }
    }
    return nil
}

private func isSame(_ ourHead: ResponseHead, _ nghttp2Head: ResponseHead) -> Bool {
    ourHead.status == nghttp2Head.status && ourHead.hasIdentifier == nghttp2Head.hasIdentifier
        && ourHead.identifier == nghttp2Head.identifier && ourHead.contentLengthBytes == nghttp2Head.contentLengthBytes
        && ourHead.isMalformed == nghttp2Head.isMalformed
}

/// Reads a response's fields with nghttp2; nil if nghttp2 refuses the block.
private func inflate(_ block: UnsafeRawBufferPointer, _ inflater: OpaquePointer?) -> ResponseHead? {
    var head = ResponseHead()
    var position = 0
    // Each call of nghttp2 finds a field or the end of the block.
    for _ in 0...block.count {
        var field = nghttp2_nv()
        var flags: Int32 = 0
        let start = block.assumingMemoryBound(to: UInt8.self).baseAddress.map { $0 + position }
        let count = nghttp2_hd_inflate_hd2(inflater, &field, &flags, start, block.count - position, 1)
        guard count >= 0 else { return nil }
        position += count
        if UInt32(bitPattern: flags) & NGHTTP2_HD_INFLATE_EMIT.rawValue != 0 {
            var headerField = HeaderField(name: UnsafeRawBufferPointer(start: field.name, count: field.namelen))
            headerField.setValue(UnsafeRawBufferPointer(start: field.value, count: field.valuelen))
            head.add(headerField)
        }
        if UInt32(bitPattern: flags) & NGHTTP2_HD_INFLATE_FINAL.rawValue != 0 {
            nghttp2_hd_inflate_end_headers(inflater)
            return head
        }
    }
    return nil
}
