/// Returns bytes that differ from place to place, so that a lost, repeated or moved block is noticed.
func makePatternedBytes(_ count: Int) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: count) { bytes, initializedCount in
        let raw = UnsafeMutableRawBufferPointer(bytes)
        var state: UInt64 = 0x9e37_79b9_7f4a_7c15
        var offset = 0
        while offset + 8 <= count {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            raw.storeBytes(of: state, toByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        while offset < count {
            raw[offset] = UInt8(truncatingIfNeeded: offset)
            offset += 1
        }
        initializedCount = count
    }
}
