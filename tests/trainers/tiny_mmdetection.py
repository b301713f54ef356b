"""A configuration of MMDetection: a small Mask R-CNN with the guide's preprocessor."""

_assigner = {"type": "MaxIoUAssigner", "min_pos_iou": 0.3}
_sampler = {"type": "RandomSampler", "neg_pos_ub": -1}
_common = {"pos_weight": -1, "debug": False}
_nms = {"type": "nms", "iou_threshold": 0.7}
_boxes = {"type": "DeltaXYWHBBoxCoder"}
_rois = {"type": "SingleRoIExtractor", "out_channels": 32, "featmap_strides": [16]}
_align = {"type": "RoIAlign", "sampling_ratio": 2, "use_torchvision": True}

model = {
    "type": "MaskRCNN",
    "data_preprocessor": {
        "type": "CopyPastePreprocessor",
        "mean": [123.675, 116.28, 103.53],
        "std": [58.395, 57.12, 57.375],
        "bgr_to_rgb": True,
        "pad_mask": True,
        "pad_size_divisor": 32,
    },
    "backbone": {
        "type": "ResNet",
        "depth": 18,
        "base_channels": 8,
        "num_stages": 3,
        "strides": (1, 2, 2),
        "dilations": (1, 1, 1),
        "out_indices": (2,),
        "norm_eval": False,
    },
    "neck": {"type": "FPN", "in_channels": [32], "out_channels": 32, "num_outs": 1},
    "rpn_head": {
        "type": "RPNHead",
        "in_channels": 32,
        "feat_channels": 32,
        "anchor_generator": {"type": "AnchorGenerator", "scales": [1, 2, 4], "ratios": [0.5, 1, 2], "strides": [16]},
        "bbox_coder": _boxes,
        "loss_cls": {"type": "CrossEntropyLoss", "use_sigmoid": True},
        "loss_bbox": {"type": "L1Loss"},
    },
    "roi_head": {
        "type": "StandardRoIHead",
        "bbox_roi_extractor": {**_rois, "roi_layer": {**_align, "output_size": 7}},
        "bbox_head": {
            "type": "Shared2FCBBoxHead",
            "in_channels": 32,
            "fc_out_channels": 64,
            "roi_feat_size": 7,
            "num_classes": 80,
            "bbox_coder": _boxes,
        },
        "mask_roi_extractor": {**_rois, "roi_layer": {**_align, "output_size": 14}},
        "mask_head": {
            "type": "FCNMaskHead",
            "num_convs": 1,
            "in_channels": 32,
            "conv_out_channels": 32,
            "num_classes": 80,
            "loss_mask": {"type": "CrossEntropyLoss", "use_mask": True},
        },
    },
    "train_cfg": {
        "rpn": {
            "assigner": {**_assigner, "pos_iou_thr": 0.7, "neg_iou_thr": 0.3},
            "sampler": {**_sampler, "num": 64, "pos_fraction": 0.5, "add_gt_as_proposals": False},
            "allowed_border": -1,
            **_common,
        },
        "rpn_proposal": {"nms_pre": 200, "max_per_img": 50, "nms": _nms, "min_bbox_size": 0},
        "rcnn": {
            "assigner": {**_assigner, "pos_iou_thr": 0.5, "neg_iou_thr": 0.5},
            "sampler": {**_sampler, "num": 32, "pos_fraction": 0.25, "add_gt_as_proposals": True},
            "mask_size": 28,
            **_common,
        },
    },
    "test_cfg": {
        "rpn": {"nms_pre": 100, "max_per_img": 50, "nms": _nms, "min_bbox_size": 0},
        "rcnn": {"score_thr": 0.05, "nms": _nms, "max_per_img": 10, "mask_thr_binary": 0.5},
    },
}
