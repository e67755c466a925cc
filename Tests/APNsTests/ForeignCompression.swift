import CNghttp2
import Testing

struct TextField: Equatable {
    var name: [UInt8]
    var value: [UInt8]

    init(name: [UInt8], value: [UInt8]) {
        self.name = name
        self.value = value
    }

    init(_ name: String, _ value: String) {
        self.init(name: Array(name.utf8), value: Array(value.utf8))
    }
}

/// nghttp2's HPACK decoder.
final class Inflater {
    private var inflater: OpaquePointer?

    init() throws {
        try #require(nghttp2_hd_inflate_new(&inflater) == 0)
    }

    deinit { nghttp2_hd_inflate_del(inflater) }

    func setTableBytes(_ bytes: Int) {
        nghttp2_hd_inflate_change_table_size(inflater, bytes)
    }

    /// Decodes a header block. Returns nil if nghttp2 refuses the block; the decoder must not be used after
    /// that.
    func decode(_ block: [UInt8]) -> [TextField]? {
        var fields: [TextField] = []
        return block.withUnsafeBufferPointer { bytes -> [TextField]? in
            var position = 0
            while true {
                var field = nghttp2_nv()
                var flags: Int32 = 0
                let start = bytes.baseAddress.map { $0 + position }
                let count = nghttp2_hd_inflate_hd2(inflater, &field, &flags, start, bytes.count - position, 1)
                guard count >= 0 else { return nil }
                position += count
                if UInt32(flags) & NGHTTP2_HD_INFLATE_EMIT.rawValue != 0 {
                    fields.append(
                        TextField(
                            name: Array(UnsafeBufferPointer(start: field.name, count: field.namelen)),
                            value: Array(UnsafeBufferPointer(start: field.value, count: field.valuelen))
                        )
                    )
                }
                if UInt32(flags) & NGHTTP2_HD_INFLATE_FINAL.rawValue != 0 {
                    nghttp2_hd_inflate_end_headers(inflater)
                    return fields
                }
                if count == 0, UInt32(flags) & NGHTTP2_HD_INFLATE_EMIT.rawValue == 0 { return nil }
            }
        }
    }
}

/// nghttp2's HPACK encoder.
final class Deflater {
    private var deflater: OpaquePointer?

    init() throws {
        try #require(nghttp2_hd_deflate_new(&deflater, 4_096) == 0)
    }

    deinit { nghttp2_hd_deflate_del(deflater) }

    func setTableBytes(_ bytes: Int) {
        nghttp2_hd_deflate_change_table_size(deflater, bytes)
    }

    func encode(_ fields: [TextField], neverIndexed: Bool) -> [UInt8] {
        let flags = UInt8(neverIndexed ? NGHTTP2_NV_FLAG_NO_INDEX.rawValue : NGHTTP2_NV_FLAG_NONE.rawValue)
        let vectors = fields.map { field in
            let name = UnsafeMutablePointer<UInt8>.allocate(capacity: max(1, field.name.count))
            let value = UnsafeMutablePointer<UInt8>.allocate(capacity: max(1, field.value.count))
            name.update(from: field.name, count: field.name.count)
            value.update(from: field.value, count: field.value.count)
            return nghttp2_nv(
                name: name,
                value: value,
                namelen: field.name.count,
                valuelen: field.value.count,
                flags: flags
            )
        }
        defer {
            for vector in vectors {
                vector.name.deallocate()
                vector.value.deallocate()
            }
        }
        var block = [UInt8](repeating: 0, count: nghttp2_hd_deflate_bound(deflater, vectors, vectors.count))
        let count = nghttp2_hd_deflate_hd(deflater, &block, block.count, vectors, vectors.count)
        return Array(block[..<max(0, count)])
    }
}
